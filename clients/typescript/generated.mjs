// Takes out of the generated code that a message with a number above 2^53 cannot be read: it would keep
// from everybody what somebody else has set. The number is the nearest one that there is.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";

const check = / {2}if \(num [<>] globalThis\.Number\.(MAX|MIN)_SAFE_INTEGER\) \{\n.*\n {2}\}\n/g;
for (const file of readdirSync("src/generated", { recursive: true })) {
  if (!file.endsWith(".ts")) continue;
  const path = `src/generated/${file}`;
  const code = readFileSync(path, "utf8").replaceAll(check, "");
  if (code.includes("SAFE_INTEGER")) throw new Error(`${path} checks numbers in another way`);
  writeFileSync(path, code);
}
