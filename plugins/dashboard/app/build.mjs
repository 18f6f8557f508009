import { readdir, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join, relative } from 'node:path';
import { build } from 'esbuild';

const folder = import.meta.dirname;
const COPIED = ['index.html', 'icon.svg'];
const ICONS = createRequire(import.meta.url).resolve('@iconify-json/lucide/icons.json');

/** The elements of an icon as `[name, attributes]`: the pages never read text as markup. Throws for markup of another form. */
function elementsOf(name, body) {
  const elements = [];
  const rest = body.replace(/<(?:g ([^>]*)|(\w+) ([^>]*?)\/)>|<\/g>/g, (_, group, tag, text) => {
    const attributes = Object.fromEntries(
      [...(group ?? text ?? '').matchAll(/([\w-]+)="([^"]*)"/g)].map(([, key, value]) => [key, value]),
    );
    if (group !== undefined) elements.push(['g', attributes]);
    else if (tag !== undefined) elements.push([tag, attributes]);
    return '';
  });
  if (rest !== '') throw new Error(`the icon ${name} has ${rest}`);
  // A group stands around everything after it: its attributes are those of all.
  const [first, ...others] = elements;
  if (first[0] !== 'g') return elements;
  return others.map(([tag, attributes]) => [tag, { ...first[1], ...attributes }]);
}

/** The icons that `icons.tsx` names, out of a set of thousands. Throws for a name that the set does not have. */
const iconBodies = {
  name: 'icon-bodies',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^icon-bodies$/ }, ({ path }) => ({ path, namespace: 'icons' }));
    onLoad({ filter: /.*/, namespace: 'icons' }, async () => {
      const { icons, aliases } = JSON.parse(await readFile(ICONS, 'utf8'));
      const text = await readFile(join(folder, 'icons.tsx'), 'utf8');
      const bodies = [...text.matchAll(/ = icon\('([^']+)'\)/g)].map(([, name]) => {
        const found = icons[name] ?? icons[aliases[name]?.parent];
        if (found === undefined) throw new Error(`there is no icon ${name}`);
        return [name, elementsOf(name, found.body)];
      });
      return { contents: `export const bodies = ${JSON.stringify(Object.fromEntries(bodies))};`, loader: 'js' };
    });
  },
};

/**
 * Bundles the pages: the bytes of each file by name. The plots are a file of their own, which is loaded with the first plot.
 * `build.mjs` writes the files into `dist`; a daemon that does not find them there makes them when it is first asked for one.
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
    plugins: [iconBodies],
    logLevel: 'warning',
  });
  const copied = await Promise.all(COPIED.map(async (name) => [name, await readFile(join(folder, name))]));
  return new Map([
    ...outputFiles.map(({ path, contents }) => [path.slice(path.lastIndexOf('/') + 1), Buffer.from(contents)]),
    ...copied,
    ['licenses.txt', Buffer.from(await licensesOf([...Object.keys(metafile.inputs), relative(folder, ICONS)]))],
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
