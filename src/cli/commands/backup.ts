import { resolve } from 'node:path';
import { EXIT } from '../../kernel/errors.ts';
import { backUp, embeddedFile } from '../backup.ts';
import type { RunCommand } from '../command.ts';
import { loadCliConfig } from '../load-config.ts';
import { needStoreDir } from '../open-store.ts';

export const run: RunCommand = async (values, io) => {
  const config = await loadCliConfig(values, io);
  const from = embeddedFile(config, needStoreDir(config, resolve(io.cwd, config.core.dataDir)));
  const to = resolve(io.cwd, String(values['output']));
  const { bytes } = await backUp('backup', { from, to }, io);
  if (values['json'] === true) io.out(JSON.stringify({ file: to, bytes }));
  else io.out(`wrote ${to}, ${bytes} bytes`);
  return EXIT.ok;
};
