import { Filter as WireFilter, type Projection as WireProjection } from "./generated/strandline/v1/log.js";

/** Bytes, or the text that they are in UTF-8. */
export type Bytes = Uint8Array | string;

/**
 * Selects the records for which all conditions that are set hold, at the server. The page filters.md says
 * what each compares.
 */
export interface Filter {
  /** The key is one of these. A record without a key has none of them. */
  keys?: readonly Bytes[] | undefined;
  /** The key begins with one of these. */
  keyPrefixes?: readonly Bytes[] | undefined;
  /** For each, a header of that name has that value. */
  headers?: readonly { key: string; value?: Bytes | undefined }[] | undefined;
  /** An expression in CEL that is true. A fault in it ends the read with FILTER_INVALID. */
  where?: string | undefined;
  /**
   * Is called with the offset of each record that `where` fails on, and why; the record is left out. Without
   * it the first such record ends the read with FILTER_FAILED. After a connection was lost it may be called
   * again for a record.
   */
  onFailed?: ((offset: number, why: string) => void) | undefined;
}

/** Says what of a record is not sent: it looks as if it had been appended without. */
export interface Projection {
  dropKey?: boolean | undefined;
  dropValue?: boolean | undefined;
  dropHeaders?: boolean | undefined;
  /** How many bytes of the value are sent at most. */
  valueBytes?: number | undefined;
  /**
   * The fields of a value that is a JSON object that are sent: `a.b` is field b of the object a. Any other
   * value becomes undefined.
   */
  jsonFields?: readonly string[] | undefined;
}

export function filterToWire({ keys = [], keyPrefixes = [], headers = [], where, onFailed }: Filter): WireFilter {
  return WireFilter.fromPartial({
    keys: keys.map(bytes),
    keyPrefixes: keyPrefixes.map(bytes),
    headers: headers.map(({ key, value }) => ({ key, value: value === undefined ? undefined : bytes(value) })),
    where: where ?? "",
    skipFailed: onFailed !== undefined,
  });
}

export function projectionToWire(p: Projection): WireProjection {
  const { dropKey = false, dropValue = false, dropHeaders = false, valueBytes = 0, jsonFields = [] } = p;
  return { dropKey, dropValue, dropHeaders, valueBytes, jsonFields: [...jsonFields] };
}

export function bytes(from: Bytes): Buffer {
  return typeof from === "string" ? Buffer.from(from) : Buffer.from(from.buffer, from.byteOffset, from.byteLength);
}
