import type { ClientOptions } from "./client.js";
import { invalid } from "./errors.js";
import { tokenFile } from "./token.js";

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
