import type { TObject } from '@sinclair/typebox';
import { CodedError, codeOf, messageOf } from '../../lib/coded-error.ts';
import { nearest } from '../../lib/edit-distance.ts';
import { isPlainObject } from '../../lib/plain-object.ts';
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

/**
 * Loads the plugins of the configuration and, for their sections, the other built-in ones; enabled ones come in the order of
 * provisioning. Loading runs no plugin code but the module itself. Errors (exit 78): PLUGIN_NOT_FOUND, PLUGIN_INVALID,
 * PLUGIN_CONFLICT, PLUGIN_CYCLE.
 */
export async function findPlugins(entries: readonly PluginEntry[], places: PluginPlaces): Promise<FoundPlugin[]> {
  const builtIns = builtInNames(places.builtInDir);
  const listed = new Set(entries.map(({ use }) => use));
  const found = await loadAll(entries, places, builtIns);
  refuseTwins(found);
  const taken = new Set(found.map(({ id }) => id));
  const silent = builtIns.filter((name) => !listed.has(name)).map((use) => ({ use, enabled: false }));
  // A listed plugin may take the id, and with it the section, of a built-in one: that is how a capability is replaced.
  found.push(...(await loadAll(silent, places, builtIns)).filter(({ id }) => !taken.has(id)));
  const enabled = found.filter((plugin) => plugin.enabled);
  return [...orderPlugins(enabled), ...found.filter((plugin) => !plugin.enabled)];
}

async function loadAll(
  entries: readonly PluginEntry[],
  places: PluginPlaces,
  builtIns: readonly string[],
): Promise<FoundPlugin[]> {
  const found: FoundPlugin[] = [];
  for (const entry of entries) {
    const plugin = await loadOne(entry, places, builtIns);
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
    exported = await importPlugin(path);
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

function refuseTwins(found: readonly FoundPlugin[]): void {
  const byId = new Map<string, FoundPlugin>();
  for (const plugin of found) {
    const other = byId.get(plugin.id);
    if (other !== undefined) {
      throw new CodedError(
        'PLUGIN_CONFLICT',
        `"${other.use}" and "${plugin.use}" are both plugins with the id "${plugin.id}"`,
        {
          exitCode: EXIT.config,
        },
      );
    }
    byId.set(plugin.id, plugin);
  }
}
