import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { build } from 'esbuild';

const folder = import.meta.dirname;
const COPIED = ['index.html', 'icon.svg'];

/**
 * Bundles the pages: the bytes of each file by name. The plots are a file of their own, which is loaded with the first plot.
 * `build.mjs` writes the files into `dist`; a daemon that runs from the sources makes them when it starts.
 */
export async function buildPages() {
  const { outputFiles, metafile } = await build({
    absWorkingDir: folder,
    entryPoints: { app: 'main.tsx', style: 'style.css' },
    outdir: 'out',
    chunkNames: 'part-[hash]',
    bundle: true,
    splitting: true,
    format: 'esm',
    target: 'es2022',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    minify: true,
    legalComments: 'none',
    metafile: true,
    write: false,
    logLevel: 'warning',
  });
  const copied = await Promise.all(COPIED.map(async (name) => [name, await readFile(join(folder, name))]));
  return new Map([
    ...outputFiles.map(({ path, contents }) => [path.slice(path.lastIndexOf('/') + 1), Buffer.from(contents)]),
    ...copied,
    ['licenses.txt', Buffer.from(await licensesOf(Object.keys(metafile.inputs)))],
  ]);
}

/** Licenses of the packages in the bundle, which ask for their text to be kept. */
async function licensesOf(inputs) {
  const packages = new Set(inputs.flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? []));
  const texts = await Promise.all(
    [...packages].sort().map(async (path) => {
      const place = join(folder, path);
      const name = (await readdir(place)).find((file) => /^licen[cs]e/i.test(file));
      const text = name === undefined ? 'see package.json' : await readFile(join(place, name), 'utf8');
      return `${path.replace(/^.*node_modules\//, '')}\n\n${text.trim()}\n`;
    }),
  );
  return texts.join('\n----\n\n');
}
