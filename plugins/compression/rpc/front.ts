import type { PluginContext, RpcMethod } from '../../../src/kernel/plugin.ts';
import type { CompressionConfig } from '../config.ts';
import { knownTrees } from '../trees/known-trees.ts';
import { accountMethods } from './account-methods.ts';
import type { MethodFactory, MethodParts } from './method.ts';
import { createSlotWatch } from './slot-watch.ts';

/** The methods, and what has to run while they are served. */
export interface RpcFront {
  readonly methods: readonly RpcMethod[];
  start(): void;
  stop(): void;
}

/** Puts the methods together; `more` and `lists` are those of other parts of the plugin. */
export function createRpcFront(
  ctx: PluginContext<CompressionConfig>,
  more: readonly MethodFactory[] = [],
  lists: readonly ((parts: MethodParts) => readonly RpcMethod[])[] = [],
): RpcFront {
  const { config, store, clock, log } = ctx;
  const chain = ctx.chain('main');
  const slots = createSlotWatch({ store, clock, chain, log });
  const parts: MethodParts = { store, slots, clock };
  const own = accountMethods({ chain, programId: config.programId, trees: knownTrees(config.trees) });
  return {
    methods: [...[...own, ...more].map((make) => make(parts)), ...lists.flatMap((make) => make(parts))],
    start: slots.start,
    stop: slots.stop,
  };
}
