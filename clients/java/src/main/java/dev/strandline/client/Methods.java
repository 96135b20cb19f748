package dev.strandline.client;

import com.google.protobuf.Empty;
import com.google.protobuf.Message;
import dev.strandline.v1.AcquireWriterRequest;
import dev.strandline.v1.AcquireWriterResponse;
import dev.strandline.v1.AppendRequest;
import dev.strandline.v1.AppendResponse;
import dev.strandline.v1.CloseSessionRequest;
import dev.strandline.v1.CloseSessionResponse;
import dev.strandline.v1.ConfigureLogRequest;
import dev.strandline.v1.ConfigureLogResponse;
import dev.strandline.v1.CreateLogRequest;
import dev.strandline.v1.CreateLogResponse;
import dev.strandline.v1.DeleteLogRequest;
import dev.strandline.v1.DeleteLogResponse;
import dev.strandline.v1.DigestRequest;
import dev.strandline.v1.DigestResponse;
import dev.strandline.v1.GetInfoRequest;
import dev.strandline.v1.GetInfoResponse;
import dev.strandline.v1.KeepHoldRequest;
import dev.strandline.v1.KeepHoldResponse;
import dev.strandline.v1.KeepSessionRequest;
import dev.strandline.v1.KeepSessionResponse;
import dev.strandline.v1.KeepWriterRequest;
import dev.strandline.v1.KeepWriterResponse;
import dev.strandline.v1.LeaseWriterRequest;
import dev.strandline.v1.LeaseWriterResponse;
import dev.strandline.v1.ListLogsRequest;
import dev.strandline.v1.ListLogsResponse;
import dev.strandline.v1.OpenSessionRequest;
import dev.strandline.v1.OpenSessionResponse;
import dev.strandline.v1.ProveRequest;
import dev.strandline.v1.ProveResponse;
import dev.strandline.v1.ReadRequest;
import dev.strandline.v1.ReadResponse;
import dev.strandline.v1.ReleaseHoldRequest;
import dev.strandline.v1.ReleaseHoldResponse;
import dev.strandline.v1.ReleaseWriterRequest;
import dev.strandline.v1.ReleaseWriterResponse;
import dev.strandline.v1.ResolveRequest;
import dev.strandline.v1.ResolveResponse;
import dev.strandline.v1.SetHoldRequest;
import dev.strandline.v1.SetHoldResponse;
import dev.strandline.v1.TrimRequest;
import dev.strandline.v1.TrimResponse;
import dev.strandline.v1.WatchInfoRequest;
import dev.strandline.v1.WatchInfoResponse;
import dev.strandline.v1.WatchWriterRequest;
import dev.strandline.v1.WatchWriterResponse;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.protobuf.ProtoUtils;

/** The verbs of the servers. */
final class Methods {
  static final MethodDescriptor<CreateLogRequest, CreateLogResponse> CREATE_LOG =
      unary(
          "CatalogService/CreateLog",
          CreateLogRequest.getDefaultInstance(),
          CreateLogResponse.getDefaultInstance());
  static final MethodDescriptor<ListLogsRequest, ListLogsResponse> LIST_LOGS =
      unary(
          "CatalogService/ListLogs",
          ListLogsRequest.getDefaultInstance(),
          ListLogsResponse.getDefaultInstance());
  static final MethodDescriptor<ConfigureLogRequest, ConfigureLogResponse> CONFIGURE_LOG =
      unary(
          "CatalogService/ConfigureLog",
          ConfigureLogRequest.getDefaultInstance(),
          ConfigureLogResponse.getDefaultInstance());
  static final MethodDescriptor<DeleteLogRequest, DeleteLogResponse> DELETE_LOG =
      unary(
          "CatalogService/DeleteLog",
          DeleteLogRequest.getDefaultInstance(),
          DeleteLogResponse.getDefaultInstance());
  static final MethodDescriptor<OpenSessionRequest, OpenSessionResponse> OPEN_SESSION =
      unary(
          "SessionService/OpenSession",
          OpenSessionRequest.getDefaultInstance(),
          OpenSessionResponse.getDefaultInstance());
  static final MethodDescriptor<KeepSessionRequest, KeepSessionResponse> KEEP_SESSION =
      unary(
          "SessionService/KeepSession",
          KeepSessionRequest.getDefaultInstance(),
          KeepSessionResponse.getDefaultInstance());
  static final MethodDescriptor<CloseSessionRequest, CloseSessionResponse> CLOSE_SESSION =
      unary(
          "SessionService/CloseSession",
          CloseSessionRequest.getDefaultInstance(),
          CloseSessionResponse.getDefaultInstance());
  static final MethodDescriptor<ResolveRequest, ResolveResponse> RESOLVE =
      unary(
          "SessionService/Resolve",
          ResolveRequest.getDefaultInstance(),
          ResolveResponse.getDefaultInstance());
  static final MethodDescriptor<TrimRequest, TrimResponse> TRIM =
      unary("LogService/Trim", TrimRequest.getDefaultInstance(), TrimResponse.getDefaultInstance());
  static final MethodDescriptor<GetInfoRequest, GetInfoResponse> GET_INFO =
      unary(
          "LogService/GetInfo",
          GetInfoRequest.getDefaultInstance(),
          GetInfoResponse.getDefaultInstance());
  static final MethodDescriptor<AcquireWriterRequest, AcquireWriterResponse> ACQUIRE_WRITER =
      unary(
          "LogService/AcquireWriter",
          AcquireWriterRequest.getDefaultInstance(),
          AcquireWriterResponse.getDefaultInstance());
  static final MethodDescriptor<LeaseWriterRequest, LeaseWriterResponse> LEASE_WRITER =
      unary(
          "LogService/LeaseWriter",
          LeaseWriterRequest.getDefaultInstance(),
          LeaseWriterResponse.getDefaultInstance());
  static final MethodDescriptor<KeepWriterRequest, KeepWriterResponse> KEEP_WRITER =
      unary(
          "LogService/KeepWriter",
          KeepWriterRequest.getDefaultInstance(),
          KeepWriterResponse.getDefaultInstance());
  static final MethodDescriptor<ReleaseWriterRequest, ReleaseWriterResponse> RELEASE_WRITER =
      unary(
          "LogService/ReleaseWriter",
          ReleaseWriterRequest.getDefaultInstance(),
          ReleaseWriterResponse.getDefaultInstance());
  static final MethodDescriptor<SetHoldRequest, SetHoldResponse> SET_HOLD =
      unary(
          "LogService/SetHold",
          SetHoldRequest.getDefaultInstance(),
          SetHoldResponse.getDefaultInstance());
  static final MethodDescriptor<KeepHoldRequest, KeepHoldResponse> KEEP_HOLD =
      unary(
          "LogService/KeepHold",
          KeepHoldRequest.getDefaultInstance(),
          KeepHoldResponse.getDefaultInstance());
  static final MethodDescriptor<ReleaseHoldRequest, ReleaseHoldResponse> RELEASE_HOLD =
      unary(
          "LogService/ReleaseHold",
          ReleaseHoldRequest.getDefaultInstance(),
          ReleaseHoldResponse.getDefaultInstance());
  static final MethodDescriptor<DigestRequest, DigestResponse> DIGEST =
      unary(
          "LogService/Digest",
          DigestRequest.getDefaultInstance(),
          DigestResponse.getDefaultInstance());
  static final MethodDescriptor<ProveRequest, ProveResponse> PROVE =
      unary(
          "LogService/Prove",
          ProveRequest.getDefaultInstance(),
          ProveResponse.getDefaultInstance());
  static final MethodDescriptor<AppendRequest, AppendResponse> APPEND =
      method(
          MethodType.BIDI_STREAMING,
          "LogService/Append",
          AppendRequest.getDefaultInstance(),
          AppendResponse.getDefaultInstance());
  static final MethodDescriptor<ReadRequest, ReadResponse> READ =
      method(
          MethodType.SERVER_STREAMING,
          "LogService/Read",
          ReadRequest.getDefaultInstance(),
          ReadResponse.getDefaultInstance());
  static final MethodDescriptor<WatchInfoRequest, WatchInfoResponse> WATCH_INFO =
      method(
          MethodType.SERVER_STREAMING,
          "LogService/WatchInfo",
          WatchInfoRequest.getDefaultInstance(),
          WatchInfoResponse.getDefaultInstance());
  static final MethodDescriptor<WatchWriterRequest, WatchWriterResponse> WATCH_WRITER =
      method(
          MethodType.SERVER_STREAMING,
          "LogService/WatchWriter",
          WatchWriterRequest.getDefaultInstance(),
          WatchWriterResponse.getDefaultInstance());

  /** Asks whether a node is there: whatever it answers, also that it does not know this, it is. */
  static final MethodDescriptor<Empty, Empty> HEALTH =
      MethodDescriptor.newBuilder(
              ProtoUtils.marshaller(Empty.getDefaultInstance()),
              ProtoUtils.marshaller(Empty.getDefaultInstance()))
          .setType(MethodType.UNARY)
          .setFullMethodName("grpc.health.v1.Health/Check")
          .build();

  private Methods() {}

  private static <Q extends Message, A extends Message> MethodDescriptor<Q, A> unary(
      String path, Q request, A answer) {
    return method(MethodType.UNARY, path, request, answer);
  }

  private static <Q extends Message, A extends Message> MethodDescriptor<Q, A> method(
      MethodType type, String path, Q request, A answer) {
    return MethodDescriptor.newBuilder(
            ProtoUtils.marshaller(request), ProtoUtils.marshaller(answer))
        .setType(type)
        .setFullMethodName("strandline.v1." + path)
        .build();
  }
}
