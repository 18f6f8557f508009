/**
 * Builds `dist`: the program and its built-in plugins, each thread's entry a file of few pieces. Node spends most of a start on
 * finding, reading and compiling files one by one; in three threads that is paid three times. Packages with binaries of their
 * own, and those that few hosts use, stay where npm put them.
 */
import { readdir, readFile, rm } from 'node:fs/promises';
import { relative } from 'node:path';
import { build } from 'esbuild';

const root = import.meta.dirname;
const out = 'dist';

/** Modules that look for something beside themselves find it as if each were a file of its own in the built tree. */
const ownPlace = {
  name: 'own-place',
  setup({ onLoad }) {
    onLoad({ filter: /\.ts$/ }, async ({ path }) => {
      const text = await readFile(path, 'utf8');
      if (path.includes('/node_modules/') || !text.includes('import.meta.url')) return null;
      const place = JSON.stringify(relative(root, path).replace(/\.ts$/, '.js'));
      return { loader: 'ts', contents: text.replaceAll('import.meta.url', `new URL(${place}, builtTree).href`) };
    });
  },
};

process.chdir(root);
await rm(out, { recursive: true, force: true });
await build({
  entryPoints: [
    'src/cli/main.ts',
    'src/cli/role-thread.ts',
    'src/adapters/chain/local/child.ts',
    'src/kernel/plugin.ts',
    ...(await readdir('plugins')).map((plugin) => `plugins/${plugin}/index.ts`),
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
  minifySyntax: true,
  legalComments: 'linked',
  external: ['better-sqlite3', 'litesvm', 'pg-native', 'pino-pretty', 'tsx', '@solana/web3.js'],
  plugins: [ownPlace],
  banner: {
    js: [
      "import { createRequire as createBuiltRequire } from 'node:module';",
      'const require = createBuiltRequire(import.meta.url);',
      `const builtTree = import.meta.url.slice(0, import.meta.url.lastIndexOf('/${out}/') + ${out.length + 2});`,
    ].join(' '),
  },
  logLevel: 'warning',
});
