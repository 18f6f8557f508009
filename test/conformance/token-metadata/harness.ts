import { type DaemonInProcess, type StartDaemonOptions, startDaemon } from '../../helpers/daemon.ts';
import { answer, type Receiver, startReceiver } from '../../helpers/receiver.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';
import { writeMetadata } from '../../helpers/write-metadata.ts';

/** An account as a node answers it; numbers are JSON text, because some do not fit. */
export interface StubAccount {
  readonly owner: string;
  readonly data: Uint8Array;
  readonly lamports?: string;
  readonly rentEpoch?: string;
}

export interface Bed {
  readonly daemon: DaemonInProcess;
  readonly upstream: TestUpstream;
  /** Documents are asked for here, by every gateway. */
  readonly documents: Receiver;
  readonly accounts: Map<string, StubAccount>;
  ask(body: unknown): Promise<BedAnswer>;
  /** How often accounts were asked for, and for which keys. */
  calls(): readonly (readonly string[])[];
  /** What the node answers for keys. */
  accountsText(keys: readonly string[]): string;
  stop(): Promise<void>;
}

/** The bytes of metadata that says little more than where its document is. */
export function metadataWith(mint: string, uri: string): Buffer {
  const fields = {
    updateAuthority: mint,
    mint,
    name: 'n',
    symbol: 's',
    uri,
    sellerFeeBasisPoints: 0,
    creators: null,
    primarySaleHappened: false,
    isMutable: true,
    editionNonce: null,
    tokenStandard: null,
    collection: null,
    uses: null,
    collectionDetails: null,
    programmableConfig: null,
  };
  return writeMetadata(fields, false).data;
}

export interface BedAnswer {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: tests look at it as they please.
  readonly body: any;
  readonly text: string;
}

export interface BedOptions {
  readonly config?: Readonly<Record<string, unknown>>;
  readonly offChain?: Readonly<Record<string, unknown>>;
  /** Where the server of documents listens; default 127.0.0.1. */
  readonly host?: string;
  /** Changes the outside world of the daemon. */
  readonly parts?: StartDaemonOptions['parts'];
  /** Where the daemon keeps what outlives it. */
  readonly place?: Pick<StartDaemonOptions, 'store' | 'dataDir' | 'key'>;
  /** Other sections of the configuration. */
  readonly sections?: Readonly<Record<string, unknown>>;
}

/** A whole daemon before a node whose accounts are set by the test, and a server of documents. */
export async function startBed({
  config = {},
  offChain = {},
  host = '127.0.0.1',
  parts,
  place = {},
  sections = {},
}: BedOptions = {}): Promise<Bed> {
  const upstream = await startUpstream();
  const documents = await startReceiver({ host });
  const accounts = new Map<string, StubAccount>();
  const accountsText = (keys: readonly string[]): string =>
    `{"context":{"slot":1000},"value":[${keys.map((key) => accountText(accounts.get(key))).join(',')}]}`;
  upstream.on('getMultipleAccounts', ({ params }) => ({ result: accountsText((params as [string[]])[0]) }));
  documents.setFallback(answer(404));
  const daemon = await startDaemon({
    ...(parts === undefined ? {} : { parts }),
    ...place,
    config: {
      ...sections,
      upstream: { urls: [upstream.url] },
      'token-metadata': {
        ...config,
        offChain: {
          arweaveGateways: [`${documents.url}/arweave/`],
          ipfsGateways: [`${documents.url}/ipfs/`],
          allowCidrs: [`${host}/32`],
          ...offChain,
        },
      },
    },
  }).catch(async (error: unknown) => {
    // Servers that are left open would keep the test from ending.
    await upstream.stop();
    await documents.close();
    throw error;
  });
  return {
    daemon,
    upstream,
    documents,
    accounts,
    accountsText,
    calls: () => upstream.callsOf('getMultipleAccounts').map(({ params }) => (params as [string[]])[0]),
    async ask(body) {
      const response = await fetch(`${daemon.apiUrl}/v0/token-metadata?api-key=${daemon.key}`, {
        method: 'POST',
        body: typeof body === 'string' ? body : JSON.stringify(body),
      });
      const text = await response.text();
      return { status: response.status, headers: response.headers, body: JSON.parse(text), text };
    },
    async stop() {
      await daemon.stop();
      await upstream.stop();
      await documents.close();
    },
  };
}

function accountText(account: StubAccount | undefined): string {
  if (account === undefined) return 'null';
  const data = Buffer.from(account.data).toString('base64');
  const { owner, lamports = '1461600', rentEpoch = '18446744073709551615' } = account;
  return `{"data":["${data}","base64"],"executable":false,"lamports":${lamports},"owner":"${owner}","rentEpoch":${rentEpoch},"space":${account.data.length}}`;
}
