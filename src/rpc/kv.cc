#include "rpc/kv.h"

#include <utility>

#include "rpc/answer.h"
#include "rpc/read_txn.h"

namespace mainstay::rpc::kv {
namespace {

using server::RequestKind;

void ServeReadTxn(const CallPtr& call, const std::shared_ptr<ReadTxn>& txn) {
  if (!MayDo(call, txn->request)) {
    return;
  }
  const auto answer = [call, txn] {
    const bool ok = txn->status.ok() && txn->error == Error::kOk;
    call->loop().services().ObserveRead(ReadType::kReadonlyTxn, ok, call->started());
    if (!txn->status.ok()) {
      FinishBroken(call, txn->status);
    } else if (txn->error != Error::kOk) {
      FinishError(call, txn->error);
    } else if (!call->RefusedAsTooLarge(txn->result.record_bytes)) {
      call->Reply(
          EncodeTxn(MakeHeader(*call, txn->result.revision), txn->result, &call->loop().arena()));
    }
  };
  txn->view = ServerOf(*call).View();
  txn->answer_bytes_max = call->loop().services().options().response_bytes_max;
  if (txn->AnswersWithoutDisk()) {
    txn->Run();
    answer();
  } else {
    InPool(
        call, [txn] { txn->Run(); }, answer);
  }
}

void StartReadTxn(const CallPtr& call, std::shared_ptr<ReadTxn> txn) {
  if (mvcc::IsSerializable(txn->request)) {
    ServeReadTxn(call, txn);
  } else {
    AfterBarrier(call, [call, txn = std::move(txn)] { ServeReadTxn(call, txn); });
  }
}

}  // namespace

void Put(const CallPtr& call, Buffer request) {
  // etcd tests the quota before it looks at the request.
  if (const Error error = ServerOf(*call).CheckQuota(RequestKind::kPut, request.view());
      error != Error::kOk) {
    return FinishError(call, error);
  }
  mvcc::PutRequest put;
  if (!mvcc::DecodePut(request.view(), &put)) {
    return FinishMalformed(call);
  }
  if (const Error error = mvcc::CheckPut(put); error != Error::kOk) {
    return FinishError(call, error);
  }
  ProposeFor(call, RequestKind::kPut, std::move(request), [](const CallPtr& c, server::Reply&& r) {
    c->Reply(EncodePut(MakeHeader(*c, r), std::get<mvcc::PutResult>(r.body), &c->loop().arena()));
  });
}

void DeleteRange(const CallPtr& call, Buffer request) {
  mvcc::DeleteRangeRequest del;
  if (!mvcc::DecodeDeleteRange(request.view(), &del)) {
    return FinishMalformed(call);
  }
  if (const Error error = mvcc::CheckDeleteRange(del); error != Error::kOk) {
    return FinishError(call, error);
  }
  ProposeFor(call, RequestKind::kDeleteRange, std::move(request),
             [](const CallPtr& c, server::Reply&& r) {
               const auto& result = std::get<mvcc::DeleteResult>(r.body);
               if (!c->RefusedAsTooLarge(mvcc::BytesOf(result.prev_kvs))) {
                 c->Reply(EncodeDelete(MakeHeader(*c, r), result, &c->loop().arena()));
               }
             });
}

void Txn(const CallPtr& call, Buffer request) {
  if (const Error error = ServerOf(*call).CheckQuota(RequestKind::kTxn, request.view());
      error != Error::kOk) {
    return FinishError(call, error);
  }
  auto txn = std::make_shared<ReadTxn>();
  if (!mvcc::DecodeTxn(request.view(), &txn->request)) {
    return FinishMalformed(call);
  }
  const size_t ops_max = call->loop().services().options().txn_ops_max;
  if (const Error error = mvcc::CheckTxn(txn->request, ops_max); error != Error::kOk) {
    return FinishError(call, error);
  }
  if (mvcc::IsReadOnly(txn->request)) {
    txn->bytes = std::move(request);
    return StartReadTxn(call, std::move(txn));
  }
  ProposeFor(call, RequestKind::kTxn, std::move(request), [](const CallPtr& c, server::Reply&& r) {
    const auto& result = std::get<mvcc::TxnResult>(r.body);
    if (!c->RefusedAsTooLarge(result.record_bytes)) {
      c->Reply(EncodeTxn(MakeHeader(*c, r), result, &c->loop().arena()));
    }
  });
}

void Compact(const CallPtr& call, Buffer request) {
  mvcc::CompactionRequest compaction;
  if (!mvcc::DecodeCompaction(request.view(), &compaction)) {
    return FinishMalformed(call);
  }
  // With `physical` the answer comes once the superseded rows are gone.
  ProposeFor(call, RequestKind::kCompaction, std::move(request),
             [](const CallPtr& c, server::Reply&& r) {
               c->Reply(EncodeHeaderOnly(MakeHeader(*c, r), &c->loop().arena()));
             });
}

}  // namespace mainstay::rpc::kv
