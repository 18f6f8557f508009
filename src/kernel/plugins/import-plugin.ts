import * as nodeModule from 'node:module';
import { dirname, extname } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/**
 * Imports the entry file of a plugin and returns its default export. Plugins from elsewhere write `import … from
 * 'parhelion/plugin'`: that name is bound to the plugin API of this very process, whatever copy of parhelion lies in their
 * node_modules, so that classes and tokens are the same on both sides.
 *
 * Built-in plugins need none of that, and go without: the first hook costs every thread a second one with a heap of its own.
 */
export async function importPlugin(path: string, isBuiltIn: boolean): Promise<unknown> {
  if (!isBuiltIn) await prepareFor(path);
  const loaded = (await import(pathToFileURL(path).href)) as { default?: unknown };
  return loaded.default;
}

async function prepareFor(path: string): Promise<void> {
  if (path.endsWith('.ts') && extname(fileURLToPath(import.meta.url)) === '.js') {
    const { register } = await import('tsx/esm/api');
    register();
  }
  bindPluginApi(path);
}

/**
 * Node itself takes a file with `import` or `export` for a module also where no package.json says so; the loader of TypeScript
 * does not, and its `require` knows no hooks. So the files beside the entry are looked at here. The hooks of the last
 * registration run first.
 */
function bindPluginApi(path: string): void {
  const extension = extname(fileURLToPath(import.meta.url));
  const api = new URL(`../plugin${extension}`, import.meta.url).href;
  const folder = `${pathToFileURL(dirname(path)).href}/`;
  const hook = `import { readFileSync } from 'node:fs';
  import { fileURLToPath } from 'node:url';
  const isModule = (url) => /^\\s*(import|export)\\b/m.test(readFileSync(fileURLToPath(url), 'utf8'));
  export async function resolve(specifier, context, next) {
    if (specifier === 'parhelion/plugin') return { url: ${JSON.stringify(api)}, shortCircuit: true };
    const found = await next(specifier, context);
    const file = found.url.split('?')[0];
    const isOwn = file.startsWith(${JSON.stringify(folder)}) && !file.slice(${folder.length}).includes('node_modules/');
    if (isOwn && found.format === 'commonjs' && /\\.[jt]s$/.test(file) && isModule(file))
      return { ...found, format: 'module' };
    return found;
  }`;
  nodeModule.register(`data:text/javascript,${encodeURIComponent(hook)}`);
}
