/**
 * Builds `dist`: the program and its built-in plugins, each thread's entry a file of few pieces. Node spends most of a start on
 * finding, reading and compiling files one by one; in three threads that is paid three times. Packages with binaries of their
 * own, and those that few hosts use, stay where npm put them.
 *
 * `node build.mjs FOLDER TEST...` builds these tests with the program and the plugins they run into a folder of this tree, for the
 * same reason: hundreds of test processes load most of the source each. There all packages stay where they are.
 */
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';

const root = import.meta.dirname;
const [out = 'dist', ...tests] = process.argv.slice(2);

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
const TAKEN_IN = /^(kysely|@sinclair\/typebox)(\/|$)/;

/** A test and what it runs in its process share one copy of each other package, where npm put it. */
const sharedPackages = {
  name: 'shared-packages',
  setup({ onResolve }) {
    onResolve({ filter: /^[^./]/ }, ({ path, kind }) =>
      kind === 'entry-point' || path in PUBLIC || TAKEN_IN.test(path) ? null : { path, external: true },
    );
  },
};

const packages =
  tests.length > 0
    ? { sourcemap: true }
    : {
        external: ['better-sqlite3', 'litesvm', 'pg-native', 'pino-pretty', 'tsx', '@solana/web3.js'],
        minifySyntax: true,
        legalComments: 'linked',
      };
const bundledRequire = [
  "import { createRequire as createBuiltRequire } from 'node:module';",
  'const require = createBuiltRequire(import.meta.url);',
];

/**
 * The old token list, without what nobody reads of it: the package that has it is wanted for this file alone, and brings a network client
 * along that a production tree does without.
 */
async function writeTokenList() {
  const from = join(root, 'node_modules/@solana/spl-token-registry/dist/main/tokens/solana.tokenlist.json');
  const { tokens } = JSON.parse(await readFile(from, 'utf8'));
  const kept = tokens.map(({ chainId, address, symbol, name, decimals, logoURI, tags, extensions }) => ({
    ...{ chainId, address, symbol, name, decimals, logoURI, tags, extensions },
  }));
  await mkdir(join(out, 'plugins/token-metadata'), { recursive: true });
  await writeFile(join(out, 'plugins/token-metadata/solana.tokenlist.json'), JSON.stringify({ tokens: kept }));
}

process.chdir(root);
await rm(out, { recursive: true, force: true });
await build({
  entryPoints: [
    'src/cli/main.ts',
    'src/cli/role-thread.ts',
    'src/local-chain/child.ts',
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
  plugins: tests.length > 0 ? [ownPlace, sharedPackages] : [ownPlace],
  banner: {
    js: [
      ...(tests.length > 0 ? [] : bundledRequire),
      `const builtTree = import.meta.url.slice(0, import.meta.url.lastIndexOf('/${out}/') + ${out.length + 2});`,
    ].join(' '),
  },
  logLevel: 'warning',
});

/**
 * The types of what plugins import, as `.d.ts`, with the files that these mention: a third party's compiler never reads our sources. Each file
 * is declared by itself, so all exports in them have written types.
 */
async function writeTypes() {
  const { default: ts } = await import('typescript');
  const compilerOptions = { declaration: true, isolatedDeclarations: true, target: ts.ScriptTarget.ES2022 };
  const files = new Set(Object.values(PUBLIC));
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
    await mkdir(dirname(place), { recursive: true });
    await writeFile(place, declared);
  }
}

if (tests.length === 0) {
  await writeTokenList();
  await writeTypes();
}
