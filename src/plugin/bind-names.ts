import * as nodeModule from 'node:module';
import { dirname, extname } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/** Import names of the plugin API, each with the file of the running daemon that it resolves to. */
const NAMES = { 'parhelion/plugin': './plugin', 'parhelion/kit': '../runtime/kit' } as const;

/**
 * Binds the import names of the plugin API for the plugin whose entry file is `path`, so that daemon and plugin share the same classes
 * and tokens, whatever copy of parhelion is in the plugin's node_modules.
 *
 * Node treats a file that contains `import` or `export` as a module even when no package.json says so. The TypeScript loader does not,
 * and its `require` ignores hooks. The hook therefore inspects the files in the folder of the entry. The hooks registered last run first.
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
