import * as nodeModule from 'node:module';
import { extname } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/**
 * Imports the entry file of a plugin and returns its default export. Plugins from elsewhere write `import … from
 * 'parhelion/plugin'`: that name is bound to the plugin API of this very process, whatever copy of parhelion lies in their
 * node_modules, so that classes and tokens are the same on both sides.
 */
export async function importPlugin(path: string): Promise<unknown> {
  bindPluginApi();
  if (path.endsWith('.ts') && extname(fileURLToPath(import.meta.url)) === '.js') {
    const { register } = await import('tsx/esm/api');
    register();
  }
  const loaded = (await import(pathToFileURL(path).href)) as { default?: unknown };
  return loaded.default;
}

function bindPluginApi(): void {
  const extension = extname(fileURLToPath(import.meta.url));
  const api = new URL(`./plugin${extension}`, import.meta.url).href;
  const hook = `export async function resolve(specifier, context, next) {
    if (specifier === 'parhelion/plugin') return { url: ${JSON.stringify(api)}, shortCircuit: true };
    return next(specifier, context);
  }`;
  nodeModule.register(`data:text/javascript,${encodeURIComponent(hook)}`);
}
