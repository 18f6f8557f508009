/**
 * Builds `dist`: the program and its built-in plugins, each thread's entry a file of few pieces. Node spends most of a start on
 * finding, reading and compiling files one by one; in three threads that is paid three times. Packages with binaries of their
 * own, and those that few hosts use, stay where npm put them.
 *
 * `node build.mjs --if-changed` does nothing when `dist` was built from what is there now. With `--start`, as `npm start` runs it, it leaves out what
 * a daemon in a checkout can do without: the types for plugins, and files that it makes of the sources when it is first asked for them.
 *
 * `node build.mjs FOLDER TEST...` builds these tests with the program and the plugins they run into a folder of this tree, for the
 * same reason: hundreds of test processes load most of the source each. There all packages stay where they are.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { isBuiltin } from 'node:module';
import { basename, dirname, join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { brotliCompressSync, constants } from 'node:zlib';
import { GUIDE_SOURCES } from './src/http/reference/guide/kinds.mjs';

const root = import.meta.dirname;
const onlyIfChanged = process.argv.includes('--if-changed');
const forStart = process.argv.includes('--start');
const [out = 'dist', ...tests] = process.argv.slice(2).filter((word) => !word.startsWith('--'));
process.chdir(root);

/** What the last build of the program was made from. */
const STAMP = join('.cache', `built-from-${basename(out)}`);

const commit = commitOfSources();

/** The commit of the checkout, or PARHELION_COMMIT where the sources come without git; null where nobody knows it. */
function commitOfSources() {
  const given = process.env.PARHELION_COMMIT || null;
  if (given !== null) return given;
  const git = (...args) => execFileSync('git', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  try {
    // Not that of another repository which the sources lie in.
    return git('rev-parse', '--show-prefix') === '' ? git('rev-parse', '--short=12', 'HEAD') : null;
  } catch {
    return null;
  }
}

/** Names, sizes and times of everything that the build reads, installed packages by npm's own list of them. */
function inputs() {
  const files = ['build.mjs', 'package.json', 'node_modules/.package-lock.json', ...GUIDE_SOURCES].filter((path) => existsSync(path));
  for (const folder of ['src', 'plugins', 'packages', 'docs']) {
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      if (entry.isFile() && !entry.name.endsWith('.test.ts')) files.push(join(entry.parentPath, entry.name));
    }
  }
  const facts = files.sort().map((path) => {
    const { size, mtimeMs } = statSync(path);
    return `${path} ${size} ${mtimeMs}\n`;
  });
  return createHash('sha256').update(`${commit} ${facts.join('')}`).digest('hex');
}

function isCurrent() {
  if (!existsSync(join(out, 'src/cli/main.js')) || !existsSync(STAMP)) return false;
  // A build for a start lacks the types.
  return readFileSync(STAMP, 'utf8') === inputs() && (forStart || existsSync(join(out, 'types')));
}

if (onlyIfChanged && isCurrent()) process.exit(0);
if (tests.length === 0) console.error('building parhelion; only the first start and changed sources need it …');
// Its process ends with the build: collecting garbage would take a quarter of its CPU time and save 80 MB of 470.
process.env.GOGC ??= 'off';
process.env.GOMEMLIMIT ??= '1GiB';
// Loaded here: a start with nothing to build does without it.
const { build } = await import('esbuild');

/** What plugins and their tests import. */
const PUBLIC = {
  'parhelion/plugin': 'src/plugin/plugin.ts',
  'parhelion/kit': 'src/runtime/kit.ts',
  'parhelion/test': 'src/cli/test-kit.ts',
};

/**
 * Modules that look for something beside themselves find it as if each were a file of its own in the built tree; those of tests find
 * the sources.
 */
const ownPlace = {
  name: 'own-place',
  setup({ onLoad, onResolve }) {
    onResolve({ filter: /^parhelion\// }, ({ path }) => ({ path: join(root, PUBLIC[path]) }));
    onLoad({ filter: /\.ts$/ }, async ({ path }) => {
      const text = await readFile(path, 'utf8');
      if (path.includes('/node_modules/') || !text.includes('import.meta.')) return null;
      const place = relative(root, path);
      return { loader: 'ts', contents: place.startsWith('test/') || place.endsWith('.test.ts') ? inSources(text, path) : inBuiltTree(text, place) };
    });
  },
};

function inBuiltTree(text, place) {
  return text.replaceAll('import.meta.url', `new URL(${JSON.stringify(place.replace(/\.ts$/, '.js'))}, builtTree).href`);
}

function inSources(text, path) {
  return text
    .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href))
    .replaceAll('import.meta.filename', JSON.stringify(path))
    .replaceAll('import.meta.dirname', JSON.stringify(dirname(path)));
}

/** Packages of hundreds of small files, which nothing outside of the built tests loads as well. */
const TAKEN_IN = /^(kysely|@sinclair\/typebox|@solana\/spl-token|yaml|ajv|commander|uuid)(\/|$)/;

/**
 * A test and what it runs in its process share one copy of each other package, where npm put it: beside the program, or beside the tests, which
 * find their own packages from where their sources are.
 */
const sharedPackages = {
  name: 'shared-packages',
  setup({ onResolve, resolve }) {
    onResolve({ filter: /^[^./]/ }, async ({ path, kind, importer, resolveDir, pluginData }) => {
      if (kind === 'entry-point' || path in PUBLIC || TAKEN_IN.test(path) || pluginData === 'asked') return null;
      const isOfTests = importer.startsWith(join(root, 'test/')) && existsSync(join(root, 'test/node_modules', packageOf(path)));
      // Of a package that is taken in, npm may have put what it needs below it.
      const isElsewhere = importer.includes('/node_modules/') && !existsSync(join(root, 'node_modules', packageOf(path)));
      if (!isOfTests && !(isElsewhere && !isBuiltin(path))) return { path, external: true };
      const { path: found, errors } = await resolve(path, { kind, importer, resolveDir, pluginData: 'asked' });
      return errors.length > 0 ? { errors } : { path: found, external: true };
    });
  },
};
const packageOf = (path) => path.split('/').slice(0, path.startsWith('@') ? 2 : 1).join('/');

/**
 * web3.js makes its client of websockets with each `Connection`, and this program opens none through it (`signup` asks over HTTP). That
 * client is under the LGPL and has binaries of its own, so the built program does without it.
 */
const withoutWeb3Sockets = {
  name: 'without-web3-sockets',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^rpc-websockets$/ }, ({ path }) => ({ path, namespace: 'absent' }));
    onLoad({ filter: /.*/, namespace: 'absent' }, () => ({
      contents: `export class CommonClient {
        on() {}
        connect() { throw new Error('this build of web3.js has no websockets'); }
        close() {}
      }
      export const WebSocket = CommonClient;`,
    }));
  },
};

const packages =
  tests.length > 0
    ? { sourcemap: true, sourcesContent: false }
    : { external: ['better-sqlite3', 'bufferutil', 'pg-native', 'pino-pretty', 'tsx', 'utf-8-validate'], minifySyntax: true, legalComments: 'linked', metafile: true };
const bundledRequire = [
  "import { createRequire as createBuiltRequire } from 'node:module';",
  'const require = createBuiltRequire(import.meta.url);',
].join(' ');
const builtTree = `const builtTree = import.meta.url.slice(0, import.meta.url.lastIndexOf('/${out}/') + ${out.length + 2});`;

/** Removes definitions of the banner from the pieces that do not use them, which are most: each thread would make them a hundred times. */
async function trimBanners(paths) {
  for (const path of paths) {
    const text = await readFile(path, 'utf8');
    const [before, code = null] = text.split(`${bundledRequire} ${builtTree}`);
    if (code === null) continue;
    const used = [/(?<![.\w$])require\b/.test(code) ? bundledRequire : '', /\bbuiltTree\b/.test(code) ? builtTree : ''];
    await writeFile(path, before + used.filter((line) => line !== '').join(' ') + code);
  }
}

/**
 * The old token list, without what nobody reads of it: the package that has it is wanted for this file alone, and brings a network client
 * along that a production tree does without.
 */
async function writeTokenList() {
  const from = join(root, 'node_modules/@solana/spl-token-registry/dist/main/tokens/solana.tokenlist.json');
  const { tokens } = JSON.parse(await readFile(from, 'utf8'));
  const kept = tokens.map(({ chainId, address, symbol, name, decimals, logoURI, tags, extensions }) => ({ chainId, address, symbol, name, decimals, logoURI, tags, extensions,
  }));
  const bytes = Buffer.from(JSON.stringify({ tokens: kept }));
  await writeCompressed(join(out, 'plugins/token-metadata/solana.tokenlist.json'), bytes);
}

async function writePages() {
  const { buildPages } = await import('./plugins/dashboard/app/build.mjs');
  const folder = join(out, 'plugins/dashboard/pages');
  await mkdir(folder, { recursive: true });
  for (const [name, bytes] of await buildPages()) await writeFile(join(folder, name), bytes);
}

await rm(out, { recursive: true, force: true });
const before = tests.length === 0 ? inputs() : '';
if (tests.length === 0) await rm(STAMP, { force: true });
const { metafile } = await build({
  entryPoints: [
    'src/cli/main.ts',
    'src/cli/worker.ts',
    'src/ledger/encode-thread.ts',
    'src/adapters/chain/finality/check-thread.ts',
    'packages/local-chain/child.ts',
    'src/adapters/clickhouse/chdb-child.ts',
    ...Object.values(PUBLIC),
    ...(await readdir('plugins')).map((plugin) => `plugins/${plugin}/index.ts`),
    ...tests,
  ],
  outdir: out,
  outbase: '.',
  chunkNames: 'pieces/[name]-[hash]',
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  conditions: ['parhelion-source'],
  ...packages,
  plugins: tests.length > 0 ? [ownPlace, sharedPackages] : [ownPlace, withoutWeb3Sockets],
  banner: { js: `${bundledRequire} ${builtTree}` },
  logLevel: 'warning',
});
if (tests.length === 0) await trimBanners(Object.keys(metafile.outputs).filter((path) => path.endsWith('.js')));

/** Packages that the public types mention: where their declarations are, and the entry. They are copied, so that none has to be installed. */
const DECLARED = {
  kysely: ['node_modules/kysely/dist/esm', 'index.js'],
  '@sinclair/typebox': ['node_modules/@sinclair/typebox/build/esm', 'index.mjs'],
  ws: ['node_modules/@types/ws', 'index.mjs'],
};

/** Only compressed: the package is to stay small. */
async function writeCompressed(path, bytes) {
  const params = { [constants.BROTLI_PARAM_QUALITY]: 9, [constants.BROTLI_PARAM_LGWIN]: 22 };
  await mkdir(dirname(path), { recursive: true });
  await writeFile(`${path}.br`, brotliCompressSync(bytes, { params }));
}

/** The site of `/docs/guide`. */
async function writeGuide() {
  const { buildGuide } = await import('./src/http/reference/guide/build.mjs');
  for (const [name, bytes] of await buildGuide()) await writeCompressed(join(out, 'src/http/reference/guide/pages', name), bytes);
}

/** The script and the style of `/docs`. */
async function writeReference() {
  const from = 'src/http/reference/page';
  for (const name of await readdir(from)) await writeCompressed(join(out, from, name), await readFile(join(from, name)));
}

/**
 * The types of what plugins import, as `.d.ts`, with the files that these mention: a third party's compiler never reads our sources. Each file
 * is declared by itself, so all exports in them have written types.
 */
async function writeTypes() {
  const { default: ts } = await import('typescript');
  const compilerOptions = { declaration: true, isolatedDeclarations: true, target: ts.ScriptTarget.ES2022 };
  const files = new Set(Object.values(PUBLIC));
  const packages = new Set();
  for (const file of files) {
    const text = await readFile(file, 'utf8');
    const { outputText, diagnostics } = ts.transpileDeclaration(text, { fileName: file, compilerOptions });
    for (const { messageText, start } of diagnostics ?? []) {
      const line = text.slice(0, start).split('\n').length;
      throw new Error(`${file}:${line}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`);
    }
    const declared = outputText.replaceAll(/(from ')(\.[^']+)\.ts'/g, (_, from, path) => {
      files.add(join(dirname(file), `${path}.ts`));
      return `${from}${path}.js'`;
    });
    const place = join(out, 'types', relative('src', file).replace(/\.ts$/, '.d.ts'));
    const bound = declared.replaceAll(/(from ')([^.'][^']*)'/g, (whole, from, name) => {
      if (name.startsWith('node:')) return whole;
      if (DECLARED[name] === undefined) throw new Error(`${file}: the public types mention ${name}; add it to DECLARED`);
      packages.add(name);
      const entry = join(out, 'types/packages', name, DECLARED[name][1]);
      return `${from}${relative(dirname(place), entry).replace(/^(?!\.)/, './')}'`;
    });
    await mkdir(dirname(place), { recursive: true });
    await writeFile(place, bound);
  }
  for (const name of packages) {
    await cp(DECLARED[name][0], join(out, 'types/packages', name), {
      recursive: true,
      filter: (path) => !/\.\w+$/.test(path) || /\.d\.m?ts$/.test(path),
    });
  }
}

/** Places of the packages that are in the built program, as package-lock.json names them: for notices and lists of materials. */
function takenIn() {
  const places = Object.keys(metafile.inputs).map((path) => /node_modules\/(?:.*\/node_modules\/)?(?:@[^/]+\/)?[^/]+/.exec(path)?.[0]);
  return [...new Set(places), 'node_modules/@solana/spl-token-registry', 'node_modules/@types/ws'].filter((path) => path !== undefined).sort();
}

/** The program shows its commit, also from a package. */
async function writeBuildNote() {
  await writeFile(join(out, 'build.json'), `${JSON.stringify({ commit })}\n`);
}

/** What makes pages and guide is found in `dist` as beside the sources: a daemon without the files runs it when it is asked for one. */
async function writeMakers() {
  for (const place of ['plugins/dashboard/app/build.mjs', 'src/http/reference/guide/build.mjs']) {
    const path = join(out, place);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, `export * from ${JSON.stringify(relative(dirname(path), place))};\n`);
  }
  await cp('src/http/reference/page', join(out, 'src/http/reference/page'), { recursive: true });
}

if (forStart) await writeMakers();
else {
  await writePages();
  await writeGuide();
  await writeReference();
}
if (tests.length === 0) {
  await writeBuildNote();
  if (!forStart) {
    await writeTokenList();
    await writeTypes();
  }
  await mkdir('.cache', { recursive: true });
  await writeFile('.cache/taken-in.json', `${JSON.stringify(takenIn(), null, 2)}\n`);
  await writeFile(STAMP, before);
}
