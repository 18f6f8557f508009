import { EXIT } from '../../../kernel/errors.ts';
import { CodedError } from '../../../lib/coded-error.ts';
import type { UpstreamConfig } from '../../../ports/upstream.ts';

/** Refuses addresses that nothing could be sent to, without repeating them: they may hold a key. Error: CONFIG_INVALID. */
export function checkAddresses(label: string, upstreams: readonly UpstreamConfig[]): void {
  const problems = upstreams.flatMap(({ url, websocketUrl }, index) => [
    ...(isAddress(url, /^https?:$/)
      ? []
      : [`${label} upstreams: address ${index + 1} is not an http or https address`]),
    ...(websocketUrl === undefined || isAddress(websocketUrl, /^wss?:$/)
      ? []
      : [`${label} upstreams: websocketUrl ${index + 1} is not a ws or wss address`]),
  ]);
  if (problems.length === 0) return;
  throw new CodedError('CONFIG_INVALID', problems.join('; '), { exitCode: EXIT.config, facts: { problems } });
}

function isAddress(text: string, scheme: RegExp): boolean {
  // Not `new URL` alone: its error quotes the text.
  return URL.canParse(text) && scheme.test(new URL(text).protocol);
}

/** Credentials in front of the host become the header that they stand for. */
export function basicAuth(url: string): Readonly<Record<string, string>> {
  const { username, password } = new URL(url);
  if (username === '' && password === '') return {};
  const pair = [username, password].map(decoded).join(':');
  return { authorization: `Basic ${Buffer.from(pair).toString('base64')}` };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
