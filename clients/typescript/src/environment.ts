import { readFileSync } from "node:fs";
import type { ClientOptions } from "./client.js";
import { invalid } from "./errors.js";

/** A file is read again for a call this long, in milliseconds, after it was read. */
const readAgain = 1000;

/**
 * A token that is kept in a file, without the space around it: `new Client(addresses, { token: tokenFile(path) })`.
 * The file is read again while calls are made, at most once a second, so that a token can be replaced. Where it
 * cannot be read any more, or is empty as it is being written, the one read last is shown.
 */
export function tokenFile(path: string): () => string {
  let shown = "";
  let read = Number.NEGATIVE_INFINITY;
  return () => {
    const now = performance.now();
    if (now - read < readAgain) return shown;
    read = now;
    try {
      shown = readFileSync(path, "utf8").trim() || shown;
    } catch (error) {
      if (!shown) throw invalid(`the token cannot be read: ${(error as Error).message}`);
    }
    return shown;
  };
}

/** The addresses and options that the variables of an environment name, as the command line takes them. */
export function fromEnvironment(environ: { [name: string]: string | undefined }): [string[], ClientOptions] {
  const value = (name: string) => environ[`STRANDLINE_${name}`] || undefined;
  const insecure = value("INSECURE")?.toLowerCase() ?? "false";
  const yes = ["1", "t", "true", "yes"].includes(insecure);
  if (!yes && !["0", "f", "false", "no"].includes(insecure)) {
    throw invalid(`STRANDLINE_INSECURE is ${JSON.stringify(insecure)}, and has to be true or false`);
  }
  const [ca, cert, key] = [value("TLS_CA"), value("TLS_CERT"), value("TLS_KEY")];
  const file = value("TOKEN_FILE");
  return [
    (value("SERVER") ?? "127.0.0.1:7171").split(",").map((address) => address.trim()),
    {
      insecure: yes,
      tlsFiles: ca || cert || key ? { ca, cert, key } : undefined,
      token: file === undefined ? value("TOKEN")?.trim() : tokenFile(file),
    },
  ];
}
