import { CodedError } from '../../lib/coded-error.ts';
import { EXIT } from '../errors.ts';
import type { PluginDefinition } from '../plugin.ts';

/**
 * Plugins in the order of provisioning: whoever offers a service comes before whoever uses it, otherwise as configured.
 * Errors: PLUGIN_CYCLE names the plugins of the circle, PLUGIN_CONFLICT the two that offer one service.
 */
export function orderPlugins<P extends { readonly definition: PluginDefinition }>(plugins: readonly P[]): P[] {
  const offeredBy = new Map<string, P>();
  for (const plugin of plugins) {
    for (const { id } of plugin.definition.offers ?? []) {
      const other = offeredBy.get(id);
      if (other !== undefined) {
        throw new CodedError(
          'PLUGIN_CONFLICT',
          `plugins ${other.definition.id} and ${plugin.definition.id} both offer the service ${id}`,
          { exitCode: EXIT.config },
        );
      }
      offeredBy.set(id, plugin);
    }
  }
  const ordered: P[] = [];
  const path: P[] = [];
  const visit = (plugin: P): void => {
    if (ordered.includes(plugin)) return;
    if (path.includes(plugin)) {
      const circle = [...path.slice(path.indexOf(plugin)), plugin].map((member) => member.definition.id);
      throw new CodedError('PLUGIN_CYCLE', `plugins use each other in a circle: ${circle.join(' -> ')}`, {
        exitCode: EXIT.config,
        facts: { plugins: circle },
      });
    }
    path.push(plugin);
    for (const { id } of plugin.definition.uses ?? []) {
      const provider = offeredBy.get(id);
      if (provider !== undefined) visit(provider);
    }
    path.pop();
    ordered.push(plugin);
  };
  for (const plugin of plugins) visit(plugin);
  return ordered;
}
