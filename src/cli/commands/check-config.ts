import { coreConfig } from '../../config/core.ts';
import type { LoadedConfig } from '../../config/load.ts';
import { type FoundPlugin, withProviders } from '../../daemon/registry.ts';
import { CodedError, EXIT } from '../../lib/coded-error.ts';
import type { CliIo, RunCommand } from '../command.ts';
import { changedSections, chooseUpstream, loadCliConfig } from '../load-config.ts';

export const run: RunCommand = async (values, io) => {
  const asJson = values['json'] === true || values['format'] === 'json';
  try {
    const config = await loadCliConfig(values, io, { needs: 'serve' });
    const chain = chooseUpstream(config);
    await provisionChanged(config, io);
    const ids = config.plugins.filter(({ enabled }) => enabled).map(({ id }) => id);
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

/** Sections of the kernel of which nothing is refused but by their schema and by `loadCliConfig`. */
const CHECKED_SECTIONS: ReadonlySet<string> = new Set(['admin', 'dataDir', 'http', 'log', 'store', 'upstream']);

/**
 * Provisions what can be refused, as a start does. The plugins of the default list work together with the default values of their sections
 * (a test holds them to it), so only those with other values are provisioned, with the providers of their services; with another list, all
 * are. To load all of them would be most of what this command does. Errors: those of `assemble`.
 */
async function provisionChanged(config: LoadedConfig<FoundPlugin>, io: CliIo): Promise<void> {
  const changed = changedSections(config, io);
  const enabled = config.plugins.filter((plugin) => plugin.enabled);
  const wanted = changed.has('plugins') ? enabled : enabled.filter(({ id }) => changed.has(id));
  const isKernelChanged = KERNEL_SECTIONS.some((name) => changed.has(name) && !CHECKED_SECTIONS.has(name));
  if (wanted.length === 0 && !isKernelChanged) return;
  const [{ assembleOffline }, { checkPluginConfig }] = await Promise.all([
    import('../offline.ts'),
    import('../../daemon/provision.ts'),
  ]);
  await checkPluginConfig(await assembleOffline({ ...config, plugins: withProviders(wanted, enabled) }));
}

const KERNEL_SECTIONS = Object.keys(coreConfig.properties);
