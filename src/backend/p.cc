void ms_backend_provisional(); void ms_backend_provisional() {}
