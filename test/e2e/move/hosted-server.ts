import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { encode32 } from '../../../src/lib/base58.ts';
import type { Sfc32 } from '../../helpers/sfc32.ts';

export const HOSTED_KEY = 'hosted-key-0123456789abcdef';

export type HostedWebhook = Record<string, unknown> & { webhookID: string; active?: boolean };

export interface HostedServer {
  readonly url: string;
  /** Webhooks of the account; tests change them. */
  readonly webhooks: Map<string, HostedWebhook>;
  /** Lists of the other service. */
  quicknode: { webhooks: object[]; streams: object[] };
  usage: unknown;
  /** Methods and paths of all requests, without their queries. */
  readonly asked: string[];
  /** Answers this to the next requests, once each. */
  readonly faults: { status: number; headers?: Record<string, string> }[];
  stop(): Promise<void>;
}

/** A made-up hosted service: its webhook API, lists of another one, and the usage of a project. */
export async function startHosted(webhooks: readonly HostedWebhook[] = []): Promise<HostedServer> {
  const hosted: Omit<HostedServer, 'url' | 'stop'> = {
    webhooks: new Map(webhooks.map((webhook) => [webhook.webhookID, webhook])),
    quicknode: { webhooks: [], streams: [] },
    usage: null,
    asked: [],
    faults: [],
  };
  const server = createServer((request, response) => {
    const url = new URL(request.url!, 'http://x');
    hosted.asked.push(`${request.method} ${url.pathname}`);
    const fault = hosted.faults.shift();
    const [status, body] = fault === undefined ? answerTo(hosted, request, url) : [fault.status, { error: 'later' }];
    response.writeHead(status, { 'content-type': 'application/json', ...fault?.headers });
    response.end(JSON.stringify(body));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return Object.assign(hosted, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop: async () => {
      server.closeAllConnections();
      server.close();
    },
  });
}

function answerTo(hosted: Omit<HostedServer, 'url' | 'stop'>, request: IncomingMessage, url: URL): [number, unknown] {
  const isQuickNode = /^\/(webhooks|streams)\/rest/.test(url.pathname);
  const key = isQuickNode ? request.headers['x-api-key'] : url.searchParams.get('api-key');
  if (key !== HOSTED_KEY) return [401, { error: `invalid key ${String(key)}` }];
  if (request.method !== 'GET') return [405, { error: 'a move must write nothing here' }];
  const one = /^\/v0\/webhooks\/(.+)$/.exec(url.pathname)?.[1];
  if (one !== undefined)
    return hosted.webhooks.has(one) ? [200, hosted.webhooks.get(one)] : [404, { error: 'not found' }];
  if (url.pathname === '/v0/webhooks')
    return [200, [...hosted.webhooks.values()].map((webhook) => ({ ...webhook, accountAddresses: [] }))];
  if (/^\/v0\/admin\/projects\/[^/]+\/usage$/.test(url.pathname)) return [200, hosted.usage];
  if (!isQuickNode) return [404, { error: 'not found' }];
  const all = hosted.quicknode[url.pathname.startsWith('/webhooks') ? 'webhooks' : 'streams'];
  const [limit, offset] = [Number(url.searchParams.get('limit')), Number(url.searchParams.get('offset'))];
  return [200, { data: all.slice(offset, offset + limit), pageInfo: { limit, offset, total: all.length } }];
}

const TYPES = ['enhanced', 'raw', 'discord', 'enhancedDevnet', 'rawDevnet', 'discordDevnet'];
const KINDS = ['SWAP', 'TRANSFER', 'NFT_SALE', 'NFT_MINT', 'BURN'];

/** Webhooks of every kind; some are equal but for their ids, and some off. */
export function webhooksOf(draw: Sfc32, count: number): HostedWebhook[] {
  const bytes = (length: number) => Uint8Array.from({ length }, () => draw.below(256));
  const made: HostedWebhook[] = [];
  for (let index = 0; index < count; index += 1) {
    const hex = Buffer.from(bytes(16)).toString('hex');
    const webhookID = `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20)}`;
    const twin = made.length > 0 && draw.float() < 0.1 ? made[draw.below(made.length)] : undefined;
    if (twin !== undefined) {
      made.push({ ...twin, webhookID });
      continue;
    }
    const webhookType = TYPES[draw.below(TYPES.length)]!;
    made.push({
      webhookID,
      wallet: encode32(bytes(32)),
      webhookURL: `http://127.0.0.1:9/hook-${draw.below(1_000)}`,
      webhookType,
      transactionTypes: draw.float() < 0.5 ? ['ANY'] : KINDS.filter(() => draw.float() < 0.4),
      accountAddresses: Array.from({ length: draw.below(draw.float() < 0.05 ? 150 : 5) }, () => encode32(bytes(32))),
      ...(draw.float() < 0.4 ? { authHeader: `Bearer secret-${draw.below(1_000)}` } : {}),
      ...(draw.float() < 0.3 ? { txnStatus: ['all', 'success', 'failed'][draw.below(3)] } : {}),
      ...(draw.float() < 0.2 ? { active: false } : {}),
      ...(index % 2 === 0 ? { name: `Webhook ${index}` } : {}),
      ...(index % 3 === 0 ? { description: `Of the customer ${index}\nin two lines` } : {}),
    });
  }
  return made;
}
