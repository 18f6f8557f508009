import type { DemoReport } from './demo/report.ts';
import type { LocalChainOptions } from './options.ts';

export interface LocalChainProcessOptions extends Omit<LocalChainOptions, 'warn'> {
  /** Run the demo scenario before anybody connects (default false). */
  readonly demo?: boolean;
}

export interface ChildReady {
  readonly rpcUrl: string;
  readonly wsUrl: string;
  readonly genesisHash: string;
  readonly hasLight: boolean;
  readonly demo: DemoReport | null;
}

export type ChildMessage =
  | { readonly ready: ChildReady }
  | { readonly failed: { readonly code: string; readonly message: string } };
