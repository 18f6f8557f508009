import type { TObject } from '@sinclair/typebox';
import { CodedError, codeOf, messageOf } from '../../lib/coded-error.ts';
import { nearest } from '../../lib/edit-distance.ts';
import { isPlainObject } from '../../lib/plain-object.ts';
import type { Roles } from '../../ports/role.ts';
import type { PluginEntry } from '../config/plugin-entries.ts';
import { coreSections, sectionProblems } from '../config/schema.ts';
import { EXIT } from '../errors.ts';
import { API_VERSION, type PluginDefinition } from '../plugin.ts';
import { importPlugin } from './import-plugin.ts';
import { builtInNames, locatePlugin, type PluginPlaces } from './locate-plugin.ts';
import { orderPlugins } from './order-plugins.ts';

export interface FoundPlugin {
  readonly id: string;
  readonly config: TObject;
  readonly definition: PluginDefinition;
  /** False for built-in plugins that are not listed and for listed ones that are switched off: only their section counts. */
  readonly enabled: boolean;
  /** As the configuration names it. */
  readonly use: string;
  readonly builtIn: boolean;
}

/** Whether there is something for it to do in a thread or process with these roles. */
export function hasDuty({ definition }: Pick<FoundPlugin, 'definition'>, roles: Roles): boolean {
  return definition.roles === undefined || definition.roles.some((role) => roles.has(role));
}

/** Takes the error of one plugin; the others are looked at all the same. */
export type ReportPlugin = (error: CodedError) => void;

const throwIt: ReportPlugin = (error) => {
  throw error;
};

/**
 * Loads the plugins of the configuration and, for their sections, the other built-in ones; enabled ones come in the order of
 * provisioning. Loading runs no plugin code but the module itself; those to be left out, as `use` names them, are not even loaded. Errors (exit 78) go to `report`, without one the first is
 * thrown: PLUGIN_NOT_FOUND, PLUGIN_INVALID, PLUGIN_CONFLICT, PLUGIN_CYCLE.
 */
export async function findPlugins(
  entries: readonly PluginEntry[],
  places: PluginPlaces,
  report: ReportPlugin = throwIt,
  leaveOut: readonly string[] = [],
): Promise<FoundPlugin[]> {
  const builtIns = builtInNames(places.builtInDir);
  const listed = new Set(entries.map(({ use }) => use));
  const wanted = entries.filter(({ use }) => !leaveOut.includes(use));
  const loaded = await loadAll(wanted, { places, builtIns, report });
  const found = withoutTwins(loaded, report);
  const taken = new Set(found.map(({ id }) => id));
  const silent = builtIns
    .filter((name) => !listed.has(name) && !leaveOut.includes(name))
    .map((use) => ({ use, enabled: false }));
  // A listed plugin may take the id, and with it the section, of a built-in one: that is how a capability is replaced.
  found.push(...(await loadAll(silent, { places, builtIns, report })).filter(({ id }) => !taken.has(id)));
  const enabled = found.filter((plugin) => plugin.enabled);
  const ordered = await attempt(() => orderPlugins(enabled), report);
  return [...(ordered ?? enabled), ...found.filter((plugin) => !plugin.enabled)];
}

/** Null when it failed; errors of the configuration are reported, others are passed on. */
async function attempt<T>(run: () => T | Promise<T>, report: ReportPlugin): Promise<T | null> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof CodedError) || error.exitCode !== EXIT.config) throw error;
    report(error);
    return null;
  }
}

interface Loading {
  readonly places: PluginPlaces;
  readonly builtIns: readonly string[];
  readonly report: ReportPlugin;
}

async function loadAll(entries: readonly PluginEntry[], loading: Loading): Promise<FoundPlugin[]> {
  const { places, builtIns, report } = loading;
  const found: FoundPlugin[] = [];
  for (const entry of entries) {
    const plugin = await attempt(() => loadOne(entry, places, builtIns), report);
    if (plugin !== null) found.push(plugin);
  }
  return found;
}

async function loadOne(
  entry: PluginEntry,
  places: PluginPlaces,
  builtIns: readonly string[],
): Promise<FoundPlugin | null> {
  const builtIn = builtIns.includes(entry.use);
  const path = locatePlugin(entry.use, places);
  if (path === null) {
    if (!entry.enabled) return null;
    const meant = nearest(entry.use, builtIns);
    throw new CodedError(
      'PLUGIN_NOT_FOUND',
      `plugin "${entry.use}" is neither built in, nor a path, nor an installed package` +
        (meant === null ? '' : `; did you mean "${meant}"?`),
      { exitCode: EXIT.config, facts: { use: entry.use } },
    );
  }
  let exported: unknown;
  try {
    exported = await importPlugin(path, builtIn);
  } catch (error) {
    if (!entry.enabled) return null;
    throw new CodedError('PLUGIN_NOT_FOUND', `plugin "${entry.use}" cannot be loaded: ${messageOf(error)}`, {
      exitCode: EXIT.config,
      cause: error,
      facts: { use: entry.use, reason: codeOf(error) ?? null },
    });
  }
  const definition = checkDefinition(exported, entry.use);
  if (builtIn && definition.id !== entry.use) {
    throw invalid(entry.use, [`its id is "${definition.id}" and its folder "${entry.use}"`]);
  }
  return { id: definition.id, config: definition.config, definition, enabled: entry.enabled, use: entry.use, builtIn };
}

/** Returns the default export of a plugin as a definition. Errors: PLUGIN_INVALID with everything that is wrong. */
export function checkDefinition(exported: unknown, use: string): PluginDefinition {
  if (!isPlainObject(exported)) throw invalid(use, ['its default export is not definePlugin({...})']);
  const problems: string[] = [];
  const { id, apiVersion, summary, config, provision } = exported;
  if (typeof id !== 'string' || !/^[a-z][a-z0-9-]{1,31}$/.test(id)) {
    problems.push('id has to be 2 to 32 characters a-z, 0-9 and "-", with a letter first');
  } else if (coreSections.includes(id)) {
    problems.push(`id "${id}" is the name of a section of the kernel`);
  }
  if (apiVersion !== API_VERSION)
    problems.push(`apiVersion is ${String(apiVersion)}, this daemon offers ${API_VERSION}`);
  if (typeof summary !== 'string' || summary === '') problems.push('summary is missing');
  if (typeof provision !== 'function') problems.push('provision is not a function');
  problems.push(...(isPlainObject(config) ? sectionProblems(config) : ['config is not a schema']));
  if (problems.length > 0) throw invalid(use, problems);
  return exported as unknown as PluginDefinition;
}

function invalid(use: string, problems: readonly string[]): CodedError {
  return new CodedError('PLUGIN_INVALID', `plugin "${use}": ${problems.join('; ')}`, {
    exitCode: EXIT.config,
    facts: { use, problems },
  });
}

/** The first of each id stays. */
function withoutTwins(found: readonly FoundPlugin[], report: ReportPlugin): FoundPlugin[] {
  const byId = new Map<string, FoundPlugin>();
  for (const plugin of found) {
    const other = byId.get(plugin.id);
    if (other === undefined) byId.set(plugin.id, plugin);
    else {
      const message = `"${other.use}" and "${plugin.use}" are both plugins with the id "${plugin.id}"`;
      report(new CodedError('PLUGIN_CONFLICT', message, { exitCode: EXIT.config, facts: { use: plugin.use } }));
    }
  }
  return [...byId.values()];
}
