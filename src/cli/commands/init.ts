import { existsSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { renderConfigDocument } from '../../config/document.ts';
import { assembleSchema } from '../../config/schema.ts';
import { findPlugins } from '../../daemon/registry.ts';
import { CodedError, messageOf } from '../../lib/coded-error.ts';
import { EXIT } from '../../runtime/errors.ts';
import { builtInDir, packageDirs } from '../built-in-dir.ts';
import type { RunCommand } from '../command.ts';

const HEADER = `Configuration of parhelion. Every key is listed with its default; remove the # to change one.
An upstream is the one thing that has to be set: the JSON-RPC address of a Solana node, for example

upstream:
  urls: ["http://127.0.0.1:8899"]`;

export const run: RunCommand = async (values, io) => {
  const path = resolve(io.cwd, String(values['output'] ?? values['config'] ?? 'parhelion.yaml'));
  if (existsSync(path) && values['force'] !== true) {
    throw new CodedError('CONFIG_UNREADABLE', `${path} exists; --force replaces it`, { exitCode: EXIT.usage });
  }
  const plugins = await findPlugins([], { builtInDir, baseDir: io.cwd, packageDirs: packageDirs(null) });
  const text = renderConfigDocument(assembleSchema(plugins), { header: HEADER, commented: true });
  try {
    // The file will contain addresses with keys.
    writeFileSync(path, text, { mode: 0o600 });
  } catch (error) {
    throw new CodedError('CONFIG_UNREADABLE', `cannot write ${path}: ${messageOf(error)}`, { exitCode: EXIT.usage });
  }
  io.out(`${path} is written. Set upstream.urls in it, then: ${io.program} check-config --config ${path}`);
  return EXIT.ok;
};
