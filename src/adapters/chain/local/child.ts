/**
 * Entry of the chain's own process: the engine is synchronous work, and a panic in native code ends the process it runs in.
 * Options arrive as the first message; the answer is `{ready}` or `{failed}`.
 */
import { codeOf, messageOf } from '../../../lib/coded-error.ts';
import { runDemo } from './demo/scenario.ts';
import { startChainWithInternals } from './in-process.ts';
import type { ChildMessage, LocalChainProcessOptions } from './messages.ts';

async function start(options: LocalChainProcessOptions): Promise<void> {
  const { handle, chain } = await startChainWithInternals(options);
  const demo = options.demo === true ? await runDemo(chain) : null;
  const { rpcUrl, wsUrl, genesisHash } = handle;
  tell({ ready: { rpcUrl, wsUrl, genesisHash, hasLight: chain.hasLight, demo } });
  process.once('SIGTERM', () => {
    handle.stop().finally(() => process.exit(0));
  });
}

function tell(message: ChildMessage): void {
  process.send?.(message);
}

// Ctrl-C reaches the whole group: the daemon drains first and ends this process itself.
process.on('SIGINT', () => undefined);
// Without its parent nobody could ever stop it.
process.once('disconnect', () => process.exit(0));
process.once('message', (options) => {
  start(options as LocalChainProcessOptions).catch((error: unknown) => {
    tell({ failed: { code: codeOf(error) ?? 'LOCAL_CHILD', message: messageOf(error) } });
    process.exitCode = 1;
    process.disconnect?.();
  });
});
