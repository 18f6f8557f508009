import type { Store } from '../ports/store.ts';
import type { OutboxParts } from './assemble.ts';
import type { Late } from './late.ts';
import type { ProvidedService } from './plugin.ts';

/** Services that the kernel offers to plugins. */
export function kernelServices(_store: Store, _outbox: Late<OutboxParts>): readonly ProvidedService[] {
  return [];
}
