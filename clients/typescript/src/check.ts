import { invalid, type Position } from "./errors.js";

/** Refuses what is no whole number that a message and a number can carry exactly. */
export function whole(name: string, value: number | undefined, most = Number.MAX_SAFE_INTEGER): void {
  if (value === undefined) return;
  if (!Number.isSafeInteger(value) || value < 0 || value > most) {
    throw invalid(`${name} is ${shown(value)}, and has to be a whole number from 0 to ${most}`);
  }
}

/** Longer than any time that makes sense, in milliseconds, and within what a Duration holds. */
const longest = 1e12;

/** Refuses what is no time, in milliseconds, that a message can carry. */
export function span(name: string, value: number | undefined, least?: number): void {
  if (value === undefined) return;
  if (!(typeof value === "number" && value > 0 && value >= (least ?? 0) && value <= longest)) {
    const bound = least === undefined ? "more than 0" : `at least ${least}`;
    throw invalid(`${name} is ${shown(value)} ms, and has to be ${bound} and at most ${longest}`);
  }
}

/** Refuses a place in a session that no message can carry. */
export function placed({ logId, session, epoch, next }: Position): void {
  whole("logId of the position", logId);
  whole("epoch of the position", epoch, 2 ** 32 - 1);
  whole("next of the position", next);
  decimal("session of the position", session);
}

/** Refuses what is no id of 64 bits in decimal; empty: none. */
export function decimal(name: string, id: string): void {
  if (typeof id !== "string" || !/^\d{0,20}$/.test(id) || BigInt(id || 0) >= 2n ** 64n) {
    throw invalid(`${name} is ${shown(id)}, and has to be a number of 64 bits in decimal`);
  }
}

/** Refuses what no header can carry. The error does not show it. */
export function header(token: string | undefined): void {
  if (token === undefined || (typeof token === "string" && /^[!-~]+$/.test(token))) return;
  throw invalid("the token is empty, or has a character that no header can carry, such as a line break at its end");
}

function shown(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}
