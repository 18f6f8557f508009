import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';

/** What an installation has in addition to the built program. */
const FILES = ['config', 'docs', 'systemd', 'README.md', 'CHANGELOG.md', 'SECURITY.md', 'LICENSE'];
/** Shells, with the place of their completion below `share/` of a prefix. */
const COMPLETIONS = {
  bash: 'bash-completion/completions/parhelion',
  zsh: 'zsh/site-functions/_parhelion',
  fish: 'fish/vendor_completions.d/parhelion.fish',
};

/**
 * Lays out what the npm package contains. Its manifest is not that of a checkout: what the build has taken into `dist` is no dependency any
 * more, and neither is what only some hosts need. `external` are the packages that the program loads from node_modules.
 */
export function stageNpm({ root, stage, version }) {
  for (const name of FILES) cpSync(join(root, name), join(stage, name), { recursive: true });
  cpSync(join(root, 'dist'), join(stage, 'dist'), { recursive: true });
  removeBlanks(root, listFiles(join(stage, 'dist/pieces')));
  for (const path of listFiles(join(root, 'plugins'))) {
    const place = relative(root, path);
    if (!/\.(ts|md)$/.test(place)) cpSync(path, join(stage, place));
  }
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const takenIn = JSON.parse(readFileSync(join(root, '.cache/taken-in.json'), 'utf8'));
  const external = Object.keys(manifest.dependencies).filter(isLoaded(root, takenIn));
  const { 'better-sqlite3': sqlite12, tsx, ...dependencies } = pick(manifest.dependencies, external);
  const { name, description, license, type, engines: node, bin } = manifest;
  const man = writeHelp(root, stage);
  writeJson(join(stage, 'package.json'), {
    name,
    version,
    description,
    license,
    type,
    engines: node,
    bin,
    ...(man === null ? {} : { man }),
    exports: Object.fromEntries(
      Object.entries(manifest.exports).map(([key, value]) => [
        key,
        typeof value === 'string' ? value : without(value, 'parhelion-source'),
      ]),
    ),
    dependencies: { 'better-sqlite3-13': manifest.optionalDependencies['better-sqlite3-13'], ...dependencies },
    optionalDependencies: without(manifest.optionalDependencies, 'better-sqlite3-13'),
    // Node 20 has no ready binary of 13; TypeScript plugins are read by Node itself from 22.18 on.
    peerDependencies: { 'better-sqlite3': `^${sqlite12}`, tsx: `>=${tsx}` },
    peerDependenciesMeta: { 'better-sqlite3': { optional: true }, tsx: { optional: true } },
  });
  writeFileSync(join(stage, 'THIRD-PARTY-NOTICES.txt'), notices(takenIn.map((place) => join(root, place))));
  for (const path of listFiles(stage)) if (path.endsWith('.md')) unlinkAbsent(path);
  return { external: Object.keys(dependencies), takenIn };
}

/**
 * Whether the program loads a package from node_modules: the build has not taken it in and a source names it, or a source loads it with
 * `require` at the moment when it is first used.
 */
function isLoaded(root, takenIn) {
  const sources = ['src', 'plugins', 'packages'].flatMap((folder) =>
    listFiles(join(root, folder)).filter((path) => /(?<!\.test)\.ts$/.test(path)),
  );
  const text = sources.map((path) => readFileSync(path, 'utf8')).join('\n');
  return (name) =>
    text.includes(`createRequire(import.meta.url)('${name}')`) ||
    (!takenIn.includes(`node_modules/${name}`) && (text.includes(`'${name}'`) || text.includes(`'${name}/`)));
}

/** Blanks and comments are 2 of the 60 MB of a package. Lines stay short enough for a place in a stack to mean something. */
function removeBlanks(root, paths) {
  // Loaded on use: without packages, `run.mjs` still says what is missing.
  const { transformSync } = createRequire(join(root, 'package.json'))('esbuild');
  for (const path of paths.filter((one) => one.endsWith('.js'))) {
    const { code } = transformSync(readFileSync(path, 'utf8'), { minifyWhitespace: true, lineLimit: 160 });
    writeFileSync(path, code);
  }
}

/** The man page and the completions, if the program makes them. Returns the place of the man page, or null. */
function writeHelp(root, stage) {
  const ask = (...args) => {
    try {
      return execFileSync(process.execPath, [join(root, 'dist/src/cli/main.js'), ...args], {
        stdio: ['ignore', 'pipe', 'ignore'],
      });
    } catch {
      console.log(`left out: this version has no command \`parhelion ${args.join(' ')}\``);
      return null;
    }
  };
  for (const [shell, place] of Object.entries(COMPLETIONS)) {
    const text = ask('completion', shell);
    if (text !== null) writeFile(join(stage, 'share', place), text);
  }
  const page = ask('man');
  if (page === null) return null;
  writeFile(join(stage, 'share/man/man1/parhelion.1'), page);
  return 'share/man/man1/parhelion.1';
}

/** Licences of packages, as each has them in its folder. */
export function notices(folders) {
  const parts = folders.map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const file = readdirSync(folder).find(
      (one) => /^(licen[cs]e|copying)/i.test(one) && statSync(join(folder, one)).isFile(),
    );
    const text = file === undefined ? '' : `\n${readFileSync(join(folder, file), 'utf8').trim()}\n`;
    return `${name} ${version} (${license ?? 'see below'})\n${text}`;
  });
  const rule = `\n${'-'.repeat(78)}\n`;
  return `parhelion contains or comes with these packages.\n${rule}${[...new Set(parts)].join(rule)}`;
}

/** Links to files that are in the source repository only become text. */
function unlinkAbsent(path) {
  const text = readFileSync(path, 'utf8');
  const linked = text.replaceAll(/\[([^\]]+)\]\((?!\w+:)([^)#]+)(#[^)]*)?\)/g, (whole, words, target) =>
    existsSync(join(dirname(path), target)) ? whole : words,
  );
  if (linked !== text) writeFileSync(path, linked);
}

export function listFiles(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}

export function writeFile(path, content, mode = 0o644) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content, { mode });
}

const writeJson = (path, value) => writeFile(path, `${JSON.stringify(value, null, 2)}\n`);
const pick = (record, names) => Object.fromEntries(Object.entries(record).filter(([name]) => names.includes(name)));
const without = (record, name) => Object.fromEntries(Object.entries(record).filter(([key]) => key !== name));
