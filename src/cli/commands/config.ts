import { existsSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { dumpConfig } from '../../config/document.ts';
import { CodedError, EXIT, messageOf } from '../../lib/coded-error.ts';
import { makeFolder } from '../../runtime/make-folder.ts';
import type { RunCommand } from '../command.ts';
import { loadCliConfig } from '../load-config.ts';
import { referenceFile } from '../package-files.ts';

/** What most operators set. The rest has good defaults, which the reference lists. */
const firstConfig = () => `# Configuration of parhelion. All keys with their defaults: ${referenceFile()}
# Relative paths count from the folder of this file.

# JSON-RPC addresses of Solana nodes, in order of preference. This is the one thing that has to be set.
upstream:
  urls: []
  # urls: ["https://first.example/?api-key=KEY", "https://second.example"]

# Folder of the database, caches and snapshots.
dataDir: ./data

# The API. To serve other machines: host 0.0.0.0, with TLS or a proxy in front.
http:
  host: 127.0.0.1
  port: 8787
  # tls: { certFile: cert.pem, keyFile: key.pem }
  # trustedProxies: [10.0.0.0/8]

# Health, metrics and the dashboard. Keep it on loopback.
admin:
  port: 8790

# Instead of SQLite in dataDir:
# store:
#   url: postgres://user:password@host/parhelion

# log:
#   level: warn
`;

export const init: RunCommand = async (values, io) => {
  const path = resolve(io.cwd, String(values['output'] ?? values['config'] ?? 'parhelion.yaml'));
  if (existsSync(path) && values['force'] !== true) {
    throw new CodedError('CLI_USAGE', `${path} exists; --force replaces it`, { exitCode: EXIT.usage });
  }
  try {
    makeFolder(dirname(path));
    // The file will contain addresses with keys.
    writeFileSync(path, firstConfig(), { mode: 0o600 });
  } catch (error) {
    throw new CodedError('CONFIG_UNREADABLE', `cannot write ${path}: ${messageOf(error)}`, { exitCode: EXIT.usage });
  }
  io.out(`${path} is written. Set upstream.urls in it, then: ${io.program} check-config --config ${path}`);
  return EXIT.ok;
};

export const showConfig: RunCommand = async (values, io) => {
  const config = await loadCliConfig(values, io);
  const asJson = values['json'] === true || values['format'] === 'json';
  io.out(dumpConfig(config, asJson ? 'json' : 'yaml').trimEnd());
  return EXIT.ok;
};
