import type { CliIo } from '../../src/cli/command.ts';
import { loadCliConfig } from '../../src/cli/load-config.ts';
import { assembleOffline } from '../../src/cli/offline.ts';
import { openApiDocument } from '../../src/http/reference/openapi.ts';
import { openRpcDocument } from '../../src/http/reference/openrpc.ts';
import type { Documents } from './model.ts';

/** The documents of a daemon without a configuration of its own, as it would serve them. Opens nothing. */
export async function ownDocuments(root: string): Promise<Documents> {
  // Not that of the machine.
  const env = { PARHELION_CONFIG: '' };
  const io: CliIo = { env, cwd: root, out: () => {}, err: () => {}, isTerminal: false, program: 'parhelion' };
  const { merged, version, bus } = await assembleOffline(await loadCliConfig({}, io));
  await bus.close();
  const options = {
    routes: merged.routes.filter(({ auth }) => auth !== 'admin'),
    methods: merged.rpc,
    version,
    forwarded: merged.rpcFallback?.methods ?? [],
  };
  return asText({ openapi: openApiDocument(options), openrpc: openRpcDocument(options) });
}

/** Those that a daemon serves, which may have other plugins. */
export async function documentsOf(baseUrl: string): Promise<Documents> {
  const read = async (name: string): Promise<object> => {
    const response = await fetch(new URL(name, baseUrl));
    if (!response.ok) throw new Error(`${response.url}: HTTP ${response.status}`);
    return (await response.json()) as object;
  };
  return asText({ openapi: await read('/openapi.json'), openrpc: await read('/openrpc.json') });
}

/** As they are sent: without what JSON leaves out. */
const asText = (documents: object): Documents => JSON.parse(JSON.stringify(documents)) as Documents;
