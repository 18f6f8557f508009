import { openApiDocument } from '../../http/index.ts';
import { EXIT } from '../../lib/coded-error.ts';
import type { RunCommand } from '../command.ts';
import { loadCliConfig } from '../load-config.ts';
import { assembleOffline } from '../offline.ts';

export const run: RunCommand = async (values, io) => {
  const { merged, version } = await assembleOffline(await loadCliConfig(values, io));
  const routes = merged.routes.filter(({ auth }) => auth !== 'admin');
  io.out(JSON.stringify(openApiDocument({ routes, methods: merged.rpc, version }), null, 2));
  return EXIT.ok;
};
