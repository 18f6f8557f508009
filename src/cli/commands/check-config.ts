import { CodedError } from '../../lib/coded-error.ts';
import { EXIT } from '../../runtime/errors.ts';
import type { RunCommand } from '../command.ts';
import { chooseUpstream, loadCliConfig } from '../load-config.ts';
import { assembleOffline } from '../offline.ts';

export const run: RunCommand = async (values, io) => {
  const asJson = values['json'] === true || values['format'] === 'json';
  try {
    const config = await loadCliConfig(values, io, { needsUpstream: true, listens: true });
    const chain = chooseUpstream(config);
    const { plugins } = await assembleOffline(config);
    const ids = plugins.map(({ id }) => id);
    const { warnings } = config;
    if (asJson) io.out(JSON.stringify({ ok: true, chain, plugins: ids, problems: [], warnings }, null, 2));
    else
      io.out(
        `configuration is fine: plugins ${ids.join(', ') || 'none'}; ${chain === 'local' ? 'LOCAL chain' : 'real upstream'}`,
      );
    if (!asJson) for (const warning of warnings) io.err(`warning: ${warning}`);
    return EXIT.ok;
  } catch (error) {
    if (!asJson || !(error instanceof CodedError) || error.exitCode !== EXIT.config) throw error;
    const problems = error.facts['problems'] ?? [error.message];
    io.out(JSON.stringify({ ok: false, code: error.code, problems }, null, 2));
    return EXIT.config;
  }
};
