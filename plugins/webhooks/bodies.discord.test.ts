/** Messages within the limits of Discord, whatever a transaction contains. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createBodyRoom, discordEmbed, mergeBodies, wrapElement } from './bodies.ts';

const options = {
  explorerUrlTemplate: 'https://example.org/{signature}?cluster={cluster}',
  cluster: 'devnet',
} as const;
const account = fc.constantFrom('', '11111111111111111111111111111111', 'So11111111111111111111111111111111111111112');
/** Names of tokens are arbitrary: long, with surrogate pairs or lone surrogates. */
const words = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 6_000 }),
  fc.nat(3_500).map((length) => '😀'.repeat(length)),
  fc.nat(9_000).map((length) => 'a'.repeat(length)),
);
const element = fc.record({
  type: fc.oneof(fc.constant('COMPRESSED_NFT_UPDATE_METADATA'), words),
  source: fc.oneof(fc.constant('SYSTEM_PROGRAM'), words),
  description: words,
  signature: fc.constant('5'.repeat(88)),
  timestamp: fc.nat(2_000_000_000),
  fee: fc.nat(),
  feePayer: fc.constant('11111111111111111111111111111111'),
  nativeTransfers: fc.array(fc.record({ amount: fc.nat(), fromUserAccount: account, toUserAccount: account }), {
    maxLength: 30,
  }),
  tokenTransfers: fc.array(
    fc.record({
      fromUserAccount: account,
      mint: fc.oneof(account, words),
      toUserAccount: account,
      tokenAmount: fc.double({ noNaN: true }),
    }),
    { maxLength: 30 },
  ),
});

interface Embed {
  readonly title: string;
  readonly description: string;
  readonly fields: readonly { readonly name: string; readonly value: string }[];
}

function checkMessage(text: string): readonly Embed[] {
  const { embeds } = JSON.parse(text) as { embeds: readonly Embed[] };
  assert.ok(embeds.length <= 10);
  let sum = 0;
  for (const { title, description, fields } of embeds) {
    assert.ok(title.length <= 256 && description.length <= 4_096 && fields.length <= 25);
    assert.ok(description.length > 0);
    for (const { name, value } of fields) {
      assert.ok(name.length <= 256 && value.length > 0 && value.length <= 1_024);
      sum += name.length + value.length;
    }
    sum += title.length + description.length;
  }
  assert.ok(sum <= 6_000, `${sum} characters`);
  return embeds;
}

test('every embed is a valid Discord message', () => {
  fc.assert(
    fc.property(element, (one) => {
      const embed = discordEmbed(one as never, options);
      checkMessage(wrapElement('discord', JSON.stringify(embed)).toString());
      const whole = one.description === '' ? one.signature : one.description;
      const said = String(embed['description']);
      assert.ok(said === whole || (said.endsWith('…') && whole.startsWith(said.slice(0, -1))));
    }),
  );
});

test('merged messages stay within the limits and contain as much as fits', () => {
  fc.assert(
    fc.property(fc.array(element, { minLength: 1, maxLength: 10 }), (elements) => {
      const bodies = elements.map((one) => wrapElement('discord', JSON.stringify(discordEmbed(one as never, options))));
      const [first, ...others] = bodies as [Buffer, ...Buffer[]];
      const fits = createBodyRoom('discord', first);
      const refused = others.findIndex((body) => !fits(body));
      const count = 1 + (refused === -1 ? others.length : refused);
      assert.equal(checkMessage(mergeBodies('discord', bodies.slice(0, count)).toString()).length, count);
      if (count === bodies.length) return;
      assert.throws(() => checkMessage(mergeBodies('discord', bodies.slice(0, count + 1)).toString()));
    }),
  );
});
