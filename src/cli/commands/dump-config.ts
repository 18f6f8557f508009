import { dumpConfig } from '../../config/dump.ts';
import { EXIT } from '../../runtime/errors.ts';
import type { RunCommand } from '../command.ts';
import { loadCliConfig } from '../load-config.ts';

export const run: RunCommand = async (values, io) => {
  const config = await loadCliConfig(values, io);
  const asJson = values['json'] === true || values['format'] === 'json';
  io.out(dumpConfig(config, asJson ? 'json' : 'yaml').trimEnd());
  return EXIT.ok;
};
