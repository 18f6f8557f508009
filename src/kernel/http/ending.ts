import type { ServerResponse } from 'node:http';

export interface Ending {
  readonly response: ServerResponse;
  readonly content: string | Buffer;
  readonly encoding: 'latin1' | 'utf8';
}

/**
 * Ends answers together at the end of the turn of the event loop that made them. Written one by one each would wake its client
 * while we go on working, which a busy daemon pays for; a single answer loses nothing, since the turn is over at once.
 */
export function createEnder(): (ending: Ending) => void {
  let waiting: Ending[] = [];
  const flush = () => {
    const endings = waiting;
    waiting = [];
    for (const { response, content, encoding } of endings) response.end(content, encoding);
  };
  return (ending) => {
    if (waiting.push(ending) === 1) setImmediate(flush);
  };
}
