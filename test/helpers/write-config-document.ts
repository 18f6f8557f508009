/** Writes config/parhelion.yaml, the documentation of all keys, from the schemas of kernel and built-in plugins. */
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { builtInDir } from '../../src/cli/built-in-dir.ts';
import { renderConfigDocument } from '../../src/config/document.ts';
import { assembleSchema } from '../../src/config/schema.ts';
import { findPlugins } from '../../src/daemon/registry.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

const HEADER = `Configuration of parhelion: every key with what it does and its default. This file is written from the schemas of the
code (npm run config:write) and compared with them in the tests.

A file of your own needs only the keys that differ; \`parhelion init\` writes one to start from, \`parhelion check-config\` checks it,
\`parhelion dump-config\` shows what is in force. Production needs one thing that has no default: upstream.urls.

Every key can also come from the environment, which wins over the file: PARHELION_HTTP__PORT=9000 sets http.port (two underscores
between levels, case and single underscores do not count), PARHELION_STORE__URL_FILE=/run/secrets/store reads the value from a
file. SOLANA_RPC_URL sets upstream.urls.`;

export async function configDocument(): Promise<string> {
  const places = { builtInDir, baseDir: root, packageDirs: [root] };
  const plugins = await findPlugins([], places);
  return renderConfigDocument(assembleSchema(plugins), { header: HEADER });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(`${root}config/parhelion.yaml`, await configDocument());
}
