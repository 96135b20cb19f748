import { whole } from "./check.js";
import { type Bytes, bytes } from "./filters.js";
import { CheckedAppend } from "./generated/strandline/v1/log.js";

/**
 * A condition of an append on what is in the log: no record at offset `since` or above, up to the records that
 * are appended, has one of the keys, a key that begins with one of the prefixes, or one of the headers. At
 * least one of them has to be given. The page checked-appends.md has the bounds.
 */
export interface Check {
  /**
   * The offset up to which the caller has read: that of the last record that it has taken into account, plus
   * one. Without it the whole log is checked.
   */
  since?: number | undefined;
  keys?: readonly Bytes[] | undefined;
  keyPrefixes?: readonly Bytes[] | undefined;
  headers?: readonly { key: string; value?: Bytes | undefined }[] | undefined;
}

/** The check without the records that are appended. */
export function checkToWire({ since = 0, keys = [], keyPrefixes = [], headers = [] }: Check): CheckedAppend {
  whole("since of the check", since);
  return CheckedAppend.fromPartial({
    since,
    keys: keys.map(bytes),
    keyPrefixes: keyPrefixes.map(bytes),
    headers: headers.map(({ key, value }) => ({ key, value: value === undefined ? undefined : bytes(value) })),
  });
}
