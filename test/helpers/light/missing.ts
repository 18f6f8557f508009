import { findLightAssets } from '../../../packages/local-chain/chain.ts';
import { chainMissing } from '../chain.ts';
import { HOW_TO_INSTALL } from '../packages.ts';

/** Why the Light programs cannot run here, or false. With REQUIRE_LITESVM=1 or REQUIRE_LIGHT=1 a reason is an error. */
export async function lightMissing(): Promise<string | false> {
  const chain = await chainMissing();
  if (chain !== null) return chain;
  if (findLightAssets(null) !== null) return false;
  const reason = `@lightprotocol/zk-compression-cli 0.28.3 is not installed: ${HOW_TO_INSTALL}`;
  if (process.env['REQUIRE_LIGHT'] === '1') throw new Error(reason);
  console.error(`SKIPPED: ${reason}`);
  return reason;
}
