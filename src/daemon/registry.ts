import { existsSync, lstatSync, readdirSync, readFileSync, statSync } from 'node:fs';
import * as nodeModule from 'node:module';
import { dirname, extname, isAbsolute, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { TObject } from '@sinclair/typebox';
import type { CoreConfig } from '../config/core.ts';
import type { PluginEntry } from '../config/load.ts';
import { coreSections, sectionProblems } from '../config/schema.ts';
import { CodedError, codeOf, EXIT, messageOf } from '../lib/coded-error.ts';
import { isPlainObject } from '../lib/json.ts';
import { nearest } from '../lib/nearest.ts';
import type { HostPluginDefinition } from '../plugin/host.ts';
import { API_VERSION } from '../plugin/version.ts';
import type { Roles } from '../ports/daemon-view.ts';

export interface FoundPlugin {
  readonly id: string;
  readonly config: TObject;
  readonly definition: HostPluginDefinition;
  readonly environment?: NonNullable<HostPluginDefinition['environment']>;
  /** False for built-in plugins that are neither listed nor needed, and for disabled ones: they are loaded only for their section. */
  readonly enabled: boolean;
  /** Name in the configuration. */
  readonly use: string;
  readonly builtIn: boolean;
}

/** With the plugins that sections of the kernel ask for, whether or not they are listed. */
export const withNeeded = (plugins: readonly FoundPlugin[], core: CoreConfig): FoundPlugin[] =>
  plugins.map((plugin) => (plugin.definition.isNeeded?.(core) === true ? { ...plugin, enabled: true } : plugin));

/** Whether the plugin is needed in a thread or process with these roles. */
export function runsIn({ definition }: Pick<FoundPlugin, 'definition'>, roles: Roles): boolean {
  return definition.roles === undefined || definition.roles.some((role) => roles.has(role));
}

/** Receives the error of one plugin; the other plugins are still checked. */
type ReportPlugin = (error: CodedError) => void;

const throwIt: ReportPlugin = (error) => {
  throw error;
};

/**
 * Loads the configured plugins and, for their sections, the other built-in ones; enabled plugins are returned in provisioning order.
 * Loading runs only the module code of a plugin; plugins to omit, given by their `use` names, are not loaded. Errors (exit 78) go to
 * `report`, or the first one is thrown: PLUGIN_NOT_FOUND, PLUGIN_INVALID, PLUGIN_CONFLICT, PLUGIN_CYCLE.
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
  // A listed plugin may have the id, and thus the section, of a built-in one: this replaces the built-in plugin.
  found.push(...(await loadAll(silent, { places, builtIns, report })).filter(({ id }) => !taken.has(id)));
  const enabled = found.filter((plugin) => plugin.enabled);
  const ordered = await attempt(() => orderPlugins(enabled), report);
  return [...(ordered ?? enabled), ...found.filter((plugin) => !plugin.enabled)];
}

/** Null if it failed with a configuration error, which is reported; other errors are thrown. */
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
        (meant === null ? '' : `; did you mean "${meant}"?`) +
        packagesOf(entry.use, places)
          .filter(({ isTrusted }) => !isTrusted)
          .map(({ modules }) => `; ${modules} is not searched: it belongs to another user, or everybody may write it`)
          .join(''),
      { exitCode: EXIT.config, facts: { use: entry.use } },
    );
  }
  let exported: unknown;
  try {
    exported = await importPlugin(path, builtIn);
  } catch (error) {
    if (!entry.enabled) return null;
    throw new CodedError('PLUGIN_NOT_FOUND', `plugin "${entry.use}" cannot be loaded: ${reasonOf(error)}`, {
      exitCode: EXIT.config,
      cause: error,
      facts: { use: entry.use, reason: codeOf(error) ?? null },
    });
  }
  const definition = checkDefinition(exported, entry.use);
  if (builtIn && definition.id !== entry.use) {
    throw invalid(entry.use, [`its id is "${definition.id}" and its folder "${entry.use}"`]);
  }
  const { id, config, environment } = definition;
  return {
    id,
    config,
    definition,
    enabled: entry.enabled,
    use: entry.use,
    builtIn,
    ...(entry.enabled && environment !== undefined ? { environment } : {}),
  };
}

/** Node writes the place of a syntax error only into the first line of the stack. */
function reasonOf(error: unknown): string {
  const [place = ''] = error instanceof SyntaxError ? (error.stack ?? '').split('\n') : [];
  return /:\d+$/.test(place) ? `${messageOf(error)} (${place.replace(/^file:\/\//, '')})` : messageOf(error);
}

/** Returns the default export of a plugin as a definition. Errors: PLUGIN_INVALID with all problems. */
export function checkDefinition(exported: unknown, use: string): HostPluginDefinition {
  if (!isPlainObject(exported)) throw invalid(use, ['its default export is not definePlugin({...})']);
  const problems: string[] = [];
  const { id, apiVersion, summary, config, provision } = exported;
  if (typeof id !== 'string' || !/^[a-z][a-z0-9-]{1,31}$/.test(id)) {
    problems.push('id must have 2 to 32 characters a-z, 0-9 and "-", starting with a letter');
  } else if (coreSections.includes(id)) {
    problems.push(`id "${id}" is the name of a section of the kernel`);
  }
  if (apiVersion !== API_VERSION)
    problems.push(`apiVersion is ${String(apiVersion)}, this daemon supports ${API_VERSION}`);
  if (typeof summary !== 'string' || summary === '') problems.push('summary is missing');
  if (typeof provision !== 'function') problems.push('provision is not a function');
  problems.push(...(isPlainObject(config) ? sectionProblems(config) : ['config is not a schema']));
  if (problems.length > 0) throw invalid(use, problems);
  return exported as unknown as HostPluginDefinition;
}

function invalid(use: string, problems: readonly string[]): CodedError {
  return new CodedError('PLUGIN_INVALID', `plugin "${use}": ${problems.join('; ')}`, {
    exitCode: EXIT.config,
    facts: { use, problems },
  });
}

/** Keeps the first plugin of each id. */
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

/**
 * Imports the entry file of a plugin and returns its default export. For external plugins, `import … from 'parhelion/plugin'` is bound to
 * the plugin API of the running daemon, whatever copy of parhelion is in their node_modules, so that classes and tokens are shared.
 *
 * Built-in plugins do not need this: the first hook costs every thread a second thread with a separate heap.
 */
async function importPlugin(path: string, isBuiltIn: boolean): Promise<unknown> {
  if (!isBuiltIn) await prepareFor(path);
  const loaded = (await import(pathToFileURL(path).href)) as { default?: unknown };
  return loaded.default;
}

async function prepareFor(path: string): Promise<void> {
  if (path.endsWith('.ts') && isBuilt) typeScriptReader = await readTypeScript();
  bindPackageNames(path);
}

const isBuilt = extname(fileURLToPath(import.meta.url)) === '.js';
/** Who reads TypeScript in this process: the sources themselves need tsx. */
let typeScriptReader: 'tsx' | 'node' = isBuilt ? 'node' : 'tsx';

/** Who reads TypeScript: tsx if it is installed, which reads all of it; otherwise Node itself, which removes types from 22.18 on. */
async function readTypeScript(): Promise<'tsx' | 'node'> {
  try {
    const { register } = await import('tsx/esm/api');
    register();
    return 'tsx';
  } catch (error) {
    if (codeOf(error) !== 'ERR_MODULE_NOT_FOUND') throw error;
    const { typescript } = process.features as { readonly typescript?: unknown };
    if (typescript === undefined || typescript === false)
      throw new Error('TypeScript needs Node 22.18 or newer, or the package tsx: build the plugin, or install tsx');
    return 'node';
  }
}

/** Where plugins are searched. */
interface PluginPlaces {
  /** Folder of the built-in plugins: one folder per plugin, with `index.ts` or `index.js`. */
  readonly builtInDir: string;
  /** Base of relative paths: the folder of the configuration file. */
  readonly baseDir: string;
  /**
   * Start folders of the package search, in this order; each search continues in the parent folders, and passes over what belongs to
   * others. Never the working directory: everyone with write access to it could have code run by the next command.
   */
  readonly packageDirs: readonly string[];
}

/** The entry file of a plugin named in the configuration, or null: a built-in name, a path (`./…`, `/…`), a package name. */
function locatePlugin(use: string, places: PluginPlaces): string | null {
  if (use.startsWith('.') || isAbsolute(use)) return entryOf(resolve(places.baseDir, use));
  if (/^[a-z][a-z0-9-]*$/.test(use)) {
    const builtIn = indexOf(join(places.builtInDir, use));
    if (builtIn !== null) return builtIn;
  }
  const parts = use.split('/');
  const depth = use.startsWith('@') ? 2 : 1;
  if (parts.length !== depth || parts.some((part) => part === '' || part === '..')) return null;
  const found = packagesOf(use, places).find(({ isTrusted }) => isTrusted);
  return found === undefined ? null : entryOf(join(found.modules, use));
}

/** The folders of packages that have one of this name, in the order of the search. */
function packagesOf(
  use: string,
  { packageDirs }: PluginPlaces,
): { readonly modules: string; readonly isTrusted: boolean }[] {
  return packageDirs.flatMap((start) =>
    withParents(resolve(start))
      .map((dir) => join(dir, 'node_modules'))
      .filter((modules) => existsSync(join(modules, use)))
      .map((modules) => ({ modules, isTrusted: isTrusted(modules, start) })),
  );
}

const withParents = (dir: string): string[] => [dir, ...(dirname(dir) === dir ? [] : withParents(dirname(dir)))];

const OTHERS_MAY_WRITE = 0o002;

/**
 * Whether a folder of packages belongs to this user, root, or the owner of the folder where the search starts. A parent folder such as
 * /tmp, where everybody may create one, must not bring code into the daemon.
 */
function isTrusted(folder: string, start: string): boolean {
  const own = process.getuid?.();
  if (own === undefined) return true;
  const owners = [own, 0, statSync(start).uid];
  return (
    owners.includes(lstatSync(folder).uid) &&
    owners.includes(statSync(folder).uid) &&
    (statSync(folder).mode & OTHERS_MAY_WRITE) === 0
  );
}

/** Names of all built-in plugins, sorted. */
function builtInNames(builtInDir: string): string[] {
  if (!existsSync(builtInDir)) return [];
  return readdirSync(builtInDir, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && indexOf(join(builtInDir, entry.name)) !== null)
    .map((entry) => entry.name)
    .sort();
}

function entryOf(path: string): string | null {
  if (!existsSync(path)) return null;
  if (statSync(path).isFile()) return path;
  const manifest = join(path, 'package.json');
  if (existsSync(manifest)) {
    const entry = manifestEntry(JSON.parse(readFileSync(manifest, 'utf8')));
    if (entry !== null) return existsSync(join(path, entry)) ? join(path, entry) : null;
  }
  return indexOf(path);
}

/** `exports["."]` for importers, else `main`. */
function manifestEntry(manifest: unknown): string | null {
  if (!isPlainObject(manifest)) return null;
  const { exports, main } = manifest;
  const root = isPlainObject(exports) && '.' in exports ? exports['.'] : exports;
  const entry = condition(root) ?? main;
  return typeof entry === 'string' ? entry : null;
}

function condition(target: unknown): unknown {
  if (!isPlainObject(target)) return target;
  for (const [name, inner] of Object.entries(target)) {
    if (name === 'import' || name === 'node' || name === 'default') return condition(inner);
  }
  return undefined;
}

function indexOf(dir: string): string | null {
  return ['index.ts', 'index.js', 'index.mjs'].map((name) => join(dir, name)).find((path) => existsSync(path)) ?? null;
}

/** The wanted plugins, and the enabled ones that offer what they use, in the order of `plugins`. */
export function withProviders(wanted: readonly FoundPlugin[], plugins: readonly FoundPlugin[]): readonly FoundPlugin[] {
  const needed = new Set<FoundPlugin>();
  const add = (plugin: FoundPlugin): void => {
    if (needed.has(plugin)) return;
    needed.add(plugin);
    const used = new Set(plugin.definition.uses?.map(({ id }) => id));
    for (const other of plugins)
      if (other.enabled && other.definition.offers?.some(({ id }) => used.has(id)) === true) add(other);
  };
  for (const plugin of wanted) add(plugin);
  return plugins.filter((plugin) => needed.has(plugin));
}

/**
 * Plugins in provisioning order: the provider of a service before its users, otherwise as configured.
 * Errors: PLUGIN_CYCLE with the plugins of the cycle, PLUGIN_CONFLICT with the two that offer the same service.
 */
export function orderPlugins<P extends { readonly definition: HostPluginDefinition }>(plugins: readonly P[]): P[] {
  const offeredBy = new Map<string, P>();
  for (const plugin of plugins) {
    for (const { id } of plugin.definition.offers ?? []) {
      const other = offeredBy.get(id);
      if (other !== undefined) {
        throw new CodedError(
          'PLUGIN_CONFLICT',
          `plugins ${other.definition.id} and ${plugin.definition.id} both offer the service ${id}`,
          { exitCode: EXIT.config },
        );
      }
      offeredBy.set(id, plugin);
    }
  }
  const ordered: P[] = [];
  const path: P[] = [];
  const visit = (plugin: P): void => {
    if (ordered.includes(plugin)) return;
    if (path.includes(plugin)) {
      const circle = [...path.slice(path.indexOf(plugin)), plugin].map((member) => member.definition.id);
      throw new CodedError('PLUGIN_CYCLE', `plugins use each other in a circle: ${circle.join(' -> ')}`, {
        exitCode: EXIT.config,
        facts: { plugins: circle },
      });
    }
    path.push(plugin);
    for (const { id } of plugin.definition.uses ?? []) {
      const provider = offeredBy.get(id);
      if (provider !== undefined) visit(provider);
    }
    path.pop();
    ordered.push(plugin);
  };
  for (const plugin of plugins) visit(plugin);
  return ordered;
}

/** Import names of the plugin API, each with the file of the running daemon that it resolves to. */
const NAMES = { 'parhelion/plugin': '../plugin/plugin', 'parhelion/kit': '../runtime/kit' } as const;

/**
 * Binds the import names of the plugin API for the plugin whose entry file is `path`, so that daemon and plugin share the same classes
 * and tokens, whatever copy of parhelion is in the plugin's node_modules.
 *
 * Node treats a file that contains `import` or `export` as a module even when no package.json says so. The TypeScript loader does not,
 * and its `require` ignores hooks. The hook therefore inspects the files in the folder of the entry. The hooks registered last run first.
 */
function bindPackageNames(path: string): void {
  const extension = extname(fileURLToPath(import.meta.url));
  const bound = Object.fromEntries(
    Object.entries(NAMES).map(([name, file]) => [name, new URL(`${file}${extension}`, import.meta.url).href]),
  );
  const folder = `${pathToFileURL(dirname(path)).href}/`;
  const typescript = typeScriptReader === 'tsx' ? 'module' : 'module-typescript';
  // Node 22 and newer leave a format open until they have read the file; tsx takes that for CommonJS.
  const isOpen = typeScriptReader === 'tsx' ? /^(?!module)/ : /^commonjs/;
  const hook = `import { readFileSync } from 'node:fs';
  import { fileURLToPath } from 'node:url';
  const bound = new Map(Object.entries(${JSON.stringify(bound)}));
  const isModule = (url) => /^\\s*(import|export)\\b/m.test(readFileSync(fileURLToPath(url), 'utf8'));
  export async function resolve(specifier, context, next) {
    if (bound.has(specifier)) return next(bound.get(specifier), context);
    const found = await next(specifier, context);
    const file = found.url.split('?')[0];
    const isOwn = file.startsWith(${JSON.stringify(folder)}) && !file.slice(${folder.length}).includes('node_modules/');
    if (!isOwn || !/\\.[jt]s$/.test(file) || !${isOpen}.test(found.format ?? '') || !isModule(file)) return found;
    return { ...found, format: file.endsWith('.ts') ? '${typescript}' : 'module' };
  }`;
  nodeModule.register(`data:text/javascript,${encodeURIComponent(hook)}`);
}
