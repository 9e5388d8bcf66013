void ms_mvcc_provisional(); void ms_mvcc_provisional() {}
