import * as nodeModule from 'node:module';
import { dirname, extname } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/** What plugins import, by the file of this very process that they get for it. */
const NAMES = { 'parhelion/plugin': './plugin', 'parhelion/kit': '../runtime/kit' } as const;

/**
 * Binds the names of the plugin API for a plugin whose entry is at `path`, whatever copy of parhelion is in its node_modules: so classes
 * and tokens are the same on both sides.
 *
 * Node itself takes a file with `import` or `export` for a module also where no package.json says so; the loader of TypeScript
 * does not, and its `require` knows no hooks. So the files beside the entry are looked at here. The hooks of the last
 * registration run first.
 */
export function bindPackageNames(path: string): void {
  const extension = extname(fileURLToPath(import.meta.url));
  const bound = Object.fromEntries(
    Object.entries(NAMES).map(([name, file]) => [name, new URL(`${file}${extension}`, import.meta.url).href]),
  );
  const folder = `${pathToFileURL(dirname(path)).href}/`;
  const hook = `import { readFileSync } from 'node:fs';
  import { fileURLToPath } from 'node:url';
  const bound = new Map(Object.entries(${JSON.stringify(bound)}));
  const isModule = (url) => /^\\s*(import|export)\\b/m.test(readFileSync(fileURLToPath(url), 'utf8'));
  export async function resolve(specifier, context, next) {
    if (bound.has(specifier)) return { url: bound.get(specifier), shortCircuit: true };
    const found = await next(specifier, context);
    const file = found.url.split('?')[0];
    const isOwn = file.startsWith(${JSON.stringify(folder)}) && !file.slice(${folder.length}).includes('node_modules/');
    if (isOwn && found.format === 'commonjs' && /\\.[jt]s$/.test(file) && isModule(file))
      return { ...found, format: 'module' };
    return found;
  }`;
  nodeModule.register(`data:text/javascript,${encodeURIComponent(hook)}`);
}
