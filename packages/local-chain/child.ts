/**
 * Entry of the chain's process: the engine works synchronously, and a panic in native code ends the process it runs in.
 * Options arrive as the first message; the answer is `{ready}` or `{failed}`. A second message starts the live demo.
 */
import { codeOf, messageOf } from '../../src/lib/coded-error.ts';
import { goLive, runDemo } from './demo.ts';
import { ENGINE, startChainWithInternals } from './in-process.ts';
import type { ChildMessage, LocalChainProcessOptions } from './index.ts';

async function start(options: LocalChainProcessOptions): Promise<void> {
  const { handle, chain } = await startChainWithInternals({ ...options, warn: (text) => console.error(text) });
  const demo = options.demo === true ? await runDemo(chain) : null;
  const { rpcUrl, wsUrl, socketPort, genesisHash } = handle;
  report({ ready: { rpcUrl, wsUrl, socketPort, genesisHash, engine: ENGINE, hasLight: chain.hasLight, demo } });
  let stopDemo = (): void => undefined;
  process.once('message', () => {
    if (demo !== null) stopDemo = goLive(chain);
  });
  process.once('SIGTERM', () => {
    stopDemo();
    handle.stop().finally(() => process.exit(0));
  });
}

function report(message: ChildMessage): void {
  process.send?.(message);
}

// Ctrl-C reaches the whole process group: the daemon drains first and ends this process itself.
process.on('SIGINT', () => undefined);
// Without its parent it could never be stopped.
process.once('disconnect', () => process.exit(0));
process.once('message', (options) => {
  start(options as LocalChainProcessOptions).catch((error: unknown) => {
    report({ failed: { code: codeOf(error) ?? 'LOCAL_CHILD', message: messageOf(error) } });
    process.exitCode = 1;
    process.disconnect?.();
  });
});
