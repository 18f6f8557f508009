import type { BodyForm } from './form.ts';

interface Frame {
  readonly before: Buffer;
  readonly after: Buffer;
}

const ARRAY: Frame = { before: Buffer.from('['), after: Buffer.from(']') };
/** One message of many embeds; nobody is pinged, whatever a description says. */
const MESSAGE: Frame = {
  before: Buffer.from('{"embeds":['),
  after: Buffer.from('],"allowed_mentions":{"parse":[]}}'),
};
const COMMA = Buffer.from(',');

const frameOf = (form: BodyForm): Frame => (form === 'discord' ? MESSAGE : ARRAY);

/** The request body of one element, which is ready JSON text. */
export function wrapElement(form: BodyForm, element: string): Buffer {
  const { before, after } = frameOf(form);
  return Buffer.concat([before, Buffer.from(element), after]);
}

/** The request body of the elements of several ready bodies, in their order. */
export function mergeBodies(form: BodyForm, bodies: readonly Buffer[]): Buffer {
  const { before, after } = frameOf(form);
  const parts: Buffer[] = [before];
  for (const [at, body] of bodies.entries()) {
    if (at > 0) parts.push(COMMA);
    parts.push(body.subarray(before.length, body.length - after.length));
  }
  return Buffer.concat([...parts, after]);
}
