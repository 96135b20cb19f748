/**
 * Client of Strandline, a replicated write-ahead log. Begin with {@link Client}. Every error is a
 * {@link StrandlineError}.
 *
 * @packageDocumentation
 */
export { Admin } from "./admin.js";
export type { ProducerOptions } from "./backlog.js";
export type { Bound } from "./calls.js";
export type { Check } from "./checkedAppend.js";
export { Client, type ClientOptions, type TLS, type TLSFiles } from "./client.js";
export type { Digest, DigestOptions } from "./digests.js";
export { type Outcome, type Position, type Reason, StrandlineError } from "./errors.js";
export type { Bytes, Filter, Projection } from "./filters.js";
export { KeptHold } from "./keptHold.js";
export { Producer } from "./producer.js";
export { Reader, type ReaderOptions } from "./reader.js";
export {
  type Appendable,
  type Durability,
  type Header,
  type Hold,
  type LogConfig,
  type LogInfo,
  maxRecordBytes,
  type NewRecord,
  type PlacementRule,
  type ReadReplicas,
  type Record,
  type ReplicaAddress,
  type Resolution,
  type ResolveState,
  type Session,
} from "./records.js";
export { Histogram, type Stats } from "./stats.js";
export { tokenFile } from "./token.js";
export { WriterLease } from "./writerLease.js";
export type { WriterClaim, WriterGrant, WriterState } from "./writers.js";
