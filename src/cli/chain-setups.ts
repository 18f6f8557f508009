import type { CoreConfig, UpstreamEntry } from '../config/core.ts';
import type { ChainSetup } from '../daemon/parts.ts';
import type { UpstreamConfig } from '../ports/upstream.ts';

/** The chains of a configuration; with `local`, the local chain is the only upstream of the main one. */
export function chainSetups(core: CoreConfig, local: UpstreamConfig | null): readonly ChainSetup[] {
  return [
    {
      id: 'main',
      kind: local === null ? 'rpc' : 'local',
      upstreams: local === null ? core.upstream.urls.map(toUpstream) : [local],
    },
    { id: 'devnet', kind: 'rpc', upstreams: core.upstream.devnet.urls.map(toUpstream) },
  ];
}

function toUpstream(entry: UpstreamEntry): UpstreamConfig {
  return typeof entry === 'string' ? { url: entry } : (entry as UpstreamConfig);
}
