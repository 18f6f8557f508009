import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { TObject } from '@sinclair/typebox';
import { CodedError, EXIT, messageOf } from '../lib/coded-error.ts';
import { isPlainObject } from '../lib/json.ts';
import { isPlainSchema } from '../lib/plain-schema.ts';
import { type CoreConfig, coreConfig } from './core.ts';
import { applyOverrides, type Environment, type Override, readEnvironment } from './env.ts';
import { acceptsPlain } from './formats.ts';
import { type ConfigPath, fillDefaults, resolvePaths, type SchemaNode } from './node.ts';
import { assembleSchema, type ConfigSection } from './schema.ts';
import type { ConfigProblem } from './validate.ts';

interface ConfigSources {
  /** Path of the configuration file; null for a start without one. */
  readonly file: string | null;
  readonly env: Environment;
  /** Base of relative paths without a file; default: the working directory. */
  readonly cwd?: string;
  /** From the command line, with the highest precedence. */
  readonly flags?: readonly Override[];
  /** Values with the lowest precedence above the defaults of the schema, for a start without a file. */
  readonly base?: Readonly<Record<string, unknown>>;
  /** Further checks; sections with errors may hold anything. Returns problems of keys, or sentences. */
  readonly check?: (loaded: LoadedConfig, faulty: ReadonlySet<string>) => readonly (ConfigProblem | string)[];
}

/**
 * Finds the plugins whose sections are part of the schema. `baseDir` is the base of relative paths in the list. Errors of single plugins go
 * to `report`, so that everything else is still checked.
 */
type FindSections<P extends ConfigSection> = (
  entries: readonly PluginEntry[],
  baseDir: string,
  report: (error: CodedError) => void,
) => Promise<readonly P[]>;

export interface LoadedConfig<P extends ConfigSection = ConfigSection> {
  /** The whole configuration, with defaults filled in and secrets in clear text. */
  readonly values: Readonly<Record<string, unknown>>;
  readonly core: CoreConfig;
  readonly schema: TObject;
  readonly plugins: readonly P[];
  readonly file: string | null;
  /** Sentences about old keys that are set. */
  readonly warnings: readonly string[];
  /** `NODE_ENV=production`. */
  readonly productionEnv: boolean;
  /** Where a key is set, for messages: `line 12, http.port`. */
  placeOf(path: ConfigPath): string;
}

/**
 * Reads file, variables of others, `PARHELION_*` and flags, in increasing precedence, and checks them against the closed schema of kernel and plugins. Errors:
 * CONFIG_UNREADABLE; CONFIG_INVALID with all problems in `facts.problems`; those of `findSections`. Relative paths become absolute: they
 * count from the folder of the file, without one from the working directory.
 */
export async function loadConfig<P extends ConfigSection>(
  sources: ConfigSources,
  findSections: FindSections<P>,
): Promise<LoadedConfig<P>> {
  const file = sources.file === null ? emptyFile : await readConfigFile(sources.file);
  const base = sources.base ?? {};
  const baseDir = sources.file === null ? (sources.cwd ?? process.cwd()) : dirname(resolve(sources.file));
  const list = await readPluginList(file, sources, baseDir);
  const broken: CodedError[] = [];
  const plugins = await findSections(pluginEntries(list.entries), baseDir, (error) => void broken.push(error));

  const schema = assembleSchema(plugins);
  const reading = await readEnvironment(schema, sources.env, (path) => readFileSync(resolve(baseDir, path), 'utf8'));
  const others = plugins.flatMap(({ environment }) => environment?.(sources.env) ?? []);
  const overrides = [...others.flatMap((one) => one.overrides), ...reading.overrides, ...(sources.flags ?? [])];
  const given = applyOverrides({ ...known(schema, base), ...file.values }, overrides);
  const values = resolvePaths(schema, fillDefaults(schema, given), baseDir);
  const faults = await faultsOf(schema, values, list.isWhole && broken.length === 0);
  const loaded: LoadedConfig<P> = {
    values: values as Record<string, unknown>,
    core: pickCore(values as Record<string, unknown>),
    schema,
    plugins,
    file: sources.file,
    warnings: [
      ...renamedKeys(schema, values, []).map(
        ({ path, to }) => `${place(path, file, overrides)} is an old key: set ${to}`,
      ),
      ...others.flatMap(({ warnings = [] }) => warnings),
    ],
    productionEnv: sources.env['NODE_ENV'] === 'production',
    placeOf: (path) => place(path, file, overrides),
  };
  const problems = [
    ...others.flatMap((one) => one.problems),
    ...reading.problems,
    ...faults.map(({ path, message }) => `${place(path, file, overrides)}: ${message}`),
  ];
  const checks = sources.check?.(loaded, new Set(faults.map(({ path }) => String(path[0])))) ?? [];
  const checked = checks.map((problem) =>
    typeof problem === 'string' ? problem : `${place(problem.path, file, overrides)}: ${problem.message}`,
  );
  if (problems.length + broken.length + checked.length === 0) return loaded;
  if (problems.length + broken.length === 0 && checked.length === 1)
    throw configInvalid(checks.every((problem) => typeof problem === 'string') ? null : sources.file, checked);
  // If the only problem is an error of a plugin, it keeps its code.
  if (problems.length + checked.length === 0 && broken.length === 1) throw broken[0];
  const pathOf = ({ facts }: CodedError) => ['plugins', ...list.indexOf(facts['use'])];
  throw configInvalid(sources.file, [
    ...broken.map((error) => `${place(pathOf(error), file, overrides)}: ${error.message}`),
    ...problems,
    ...checked,
  ]);
}

/**
 * What is wrong with the values. Ajv is loaded to describe it, and for schemas with keywords that only Ajv knows: most commands do without. If
 * a plugin could not be loaded, an unknown section may be its own.
 */
async function faultsOf(schema: SchemaNode, values: unknown, isListWhole: boolean): Promise<readonly ConfigProblem[]> {
  if (isPlainSchema(schema) && acceptsPlain(schema, values)) return [];
  const { UNKNOWN_KEY, validateConfig } = await import('./validate.ts');
  return validateConfig(schema, values).filter(
    ({ path, message }) => isListWhole || path.length > 1 || message !== UNKNOWN_KEY,
  );
}

/** Old keys that are set, with their replacements. */
function renamedKeys(
  schema: SchemaNode,
  value: unknown,
  path: readonly string[],
): { readonly path: readonly string[]; readonly to: string }[] {
  if (schema.renamedTo !== undefined)
    return value === null || value === undefined ? [] : [{ path, to: schema.renamedTo }];
  if (!isPlainObject(value)) return [];
  return Object.entries(schema.properties ?? {}).flatMap(([key, field]) =>
    renamedKeys(field, value[key], [...path, key]),
  );
}

interface PluginList {
  /** The readable entries; the others are reported as errors of the whole configuration. */
  readonly entries: CoreConfig['plugins'];
  readonly isWhole: boolean;
  /** End of the path of the entry with this `use` name; empty if there is no such entry. */
  indexOf(use: unknown): readonly number[];
}

/** The list determines which sections exist, so it is read first. */
async function readPluginList(file: ConfigFile, sources: ConfigSources, baseDir: string): Promise<PluginList> {
  const reading = await readEnvironment(coreConfig, pick(sources.env, 'PARHELION_PLUGINS'), (path) =>
    readFileSync(resolve(baseDir, path), 'utf8'),
  );
  const overrides = [...reading.overrides, ...(sources.flags ?? [])].filter(({ path }) => path[0] === 'plugins');
  const list = fillDefaults(coreConfig.properties.plugins, applyOverrides(file.values, overrides)['plugins']);
  const given: readonly unknown[] = Array.isArray(list) ? list : [];
  const entries = given.filter((entry) =>
    acceptsPlain(coreConfig.properties.plugins, [entry]),
  ) as CoreConfig['plugins'];
  return {
    entries,
    isWhole: Array.isArray(list) && entries.length === given.length,
    indexOf(use) {
      const index = given.findIndex((entry) => entry === use || (isPlainObject(entry) && entry['use'] === use));
      return index < 0 || use === undefined ? [] : [index];
    },
  };
}

/** Omits values of plugins that are not loaded: the base is written for the default set of plugins. */
function known(schema: SchemaNode, base: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(base).filter(([key]) => schema.properties?.[key] !== undefined));
}

function pick(env: Environment, prefix: string): Environment {
  return Object.fromEntries(Object.entries(env).filter(([name]) => name.startsWith(prefix)));
}

/** `line 12, http.port` or `PARHELION_HTTP__PORT, http.port`. */
function place(path: ConfigPath, file: ConfigFile, overrides: readonly Override[]): string {
  const dotted = path.map(String).join('.') || 'the configuration';
  const override = overrides.findLast((candidate) => candidate.path.every((part, index) => part === path[index]));
  if (override !== undefined) return `${override.origin} (${dotted})`;
  const line = file.lineOf(path);
  return line === null ? dotted : `line ${line}, ${dotted}`;
}

function pickCore(values: Readonly<Record<string, unknown>>): CoreConfig {
  return Object.fromEntries(Object.keys(coreConfig.properties).map((key) => [key, values[key]])) as CoreConfig;
}

function configInvalid(file: string | null, problems: readonly string[]): CodedError {
  const count = problems.length === 1 ? 'one error' : `${problems.length} errors`;
  const where = file === null && problems.length === 1 ? '' : `${file ?? 'the configuration'} has ${count}: `;
  return new CodedError('CONFIG_INVALID', `${where}${problems.join('; ')}`, {
    exitCode: EXIT.config,
    facts: { problems, file },
  });
}

/** One entry of `plugins` in its long form. */
export interface PluginEntry {
  /** Built-in name, path or package name. */
  readonly use: string;
  readonly enabled: boolean;
}

export function pluginEntries(list: CoreConfig['plugins']): readonly PluginEntry[] {
  return list.map((entry) =>
    typeof entry === 'string' ? { use: entry, enabled: true } : { use: entry.use, enabled: entry.enabled ?? true },
  );
}

export interface ConfigFile {
  readonly values: Readonly<Record<string, unknown>>;
  /** Line of a key, counted from 1; null if the file does not contain it. */
  lineOf(path: ConfigPath): number | null;
}

const emptyFile: ConfigFile = { values: {}, lineOf: () => null };

/** Reads a YAML (or JSON) file. Errors: CONFIG_UNREADABLE, CONFIG_INVALID with all syntax errors and their lines. */
async function readConfigFile(path: string): Promise<ConfigFile> {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new CodedError('CONFIG_UNREADABLE', `cannot read ${path}: ${messageOf(error)}`, { exitCode: EXIT.config });
  }
  return await parseConfig(text, path);
}

/** Parses the text of a configuration; `name` is used in messages. */
async function parseConfig(text: string, name: string): Promise<ConfigFile> {
  const { readYaml } = await import('../lib/yaml.ts');
  const reading = readYaml(text);
  if (reading.kind === 'faulty') throw invalid(name, reading.problems);
  const values = reading.value ?? {};
  if (!isPlainObject(values)) throw invalid(name, ['the top level is not a list of keys']);
  return { values, lineOf: reading.lineOf };
}

function invalid(name: string, problems: readonly string[]): CodedError {
  return new CodedError('CONFIG_INVALID', `${name} is not valid YAML: ${problems.join('; ')}`, {
    exitCode: EXIT.config,
    facts: { problems, file: name },
  });
}
