/** Writes config/parhelion.yaml, the documentation of all keys, from the schemas of kernel and built-in plugins. */
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { builtInDir } from '../../src/cli/package-files.ts';
import { renderConfigDocument } from '../../src/config/document.ts';
import { assembleSchema } from '../../src/config/schema.ts';
import { findPlugins } from '../../src/daemon/registry.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

const HEADER = `Configuration of parhelion: every key with its meaning and default. Written by npm run config:write from the schemas in the code.

Your own file needs only the keys that differ. \`parhelion init\` writes one to start from, \`parhelion check-config\` validates it, and
\`parhelion dump-config\` prints the effective configuration. In production one key is required: \`upstream.urls\`.

Environment variables override the file. \`PARHELION_HTTP__PORT=9000\` sets \`http.port\`: two underscores separate levels; case and single
underscores are ignored. \`PARHELION_STORE__URL_FILE=/run/secrets/store\` reads the value from a file; a list may have blanks or commas between
its items. \`SOLANA_RPC_URL\` sets \`upstream.urls\`. Relative paths, here and in variables, count from the folder of the configuration file.

A reload (systemctl reload, SIGHUP, \`parhelion reload\`) applies the keys marked [reload]. For a key marked [reload, if set] it
takes another value; null or an empty list, before or after, needs a restart, because these turn something on or off. It names all changed keys
that need a restart.`;

export async function configDocument(): Promise<string> {
  const places = { builtInDir, baseDir: root, packageDirs: [root] };
  const plugins = await findPlugins([], places);
  return renderConfigDocument(assembleSchema(plugins), { header: HEADER });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(`${root}config/parhelion.yaml`, await configDocument());
}
