import { type DaemonInProcess, runCommand, type StartDaemonOptions, startDaemon } from '../../helpers/daemon.ts';

export interface WebhookDaemon extends DaemonInProcess {
  /** A key of another project. */
  otherKey(): Promise<string>;
}

/** A whole daemon with these webhook settings, and a chain when one is given. */
export async function startWebhookDaemon(
  webhooks: object = {},
  options: Omit<StartDaemonOptions, 'config'> & { config?: Readonly<Record<string, unknown>> } = {},
): Promise<WebhookDaemon> {
  const daemon = await startDaemon({ ...options, config: { ...options.config, webhooks } });
  return {
    ...daemon,
    async otherKey() {
      const project = await json(['projects', 'create', '--name', 'other', '--plan', 'unlimited'], daemon);
      return (await json(['keys', 'create', '--project', project['id'] ?? ''], daemon))['key'] ?? '';
    },
  };
}

async function json(args: readonly string[], { configFile }: DaemonInProcess): Promise<Record<string, string>> {
  const { code, out, err } = await runCommand([...args, '--json', '--config', configFile]);
  if (code !== 0) throw new Error(err);
  return JSON.parse(out) as Record<string, string>;
}

/** Calls the API with a key. A string body is sent as it is. */
export type Api = (method: string, path: string, body?: unknown) => Promise<ApiAnswer>;

export interface ApiAnswer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests look at it as they please.
  readonly body: any;
}

export function apiOf(apiUrl: string, key: string): Api {
  return async (method, path, body) => {
    const response = await fetch(`${apiUrl}${path}${path.includes('?') ? '&' : '?'}api-key=${key}`, {
      method,
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, body: text === '' ? undefined : JSON.parse(text) };
  };
}
