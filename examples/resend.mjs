// How the webhooks of a project are doing; with --resend, what was not delivered is sent now.
//   API_KEY=KEY node resend.mjs [--resend]
import { ask } from './client.mjs';

const [hooks, healths] = [await ask('/v0/webhooks'), await ask('/v0/webhooks/health')];
for (const { webhookID, name, webhookURL } of hooks) {
  const { state, successRate, waiting, nextAttemptAt } = healths.find((one) => one.webhookID === webhookID);
  const rate = successRate === null ? 'no attempts today' : `${(100 * successRate).toFixed(1)} % of today's attempts`;
  console.log(`${name ?? webhookURL}: ${state}, ${rate}, ${waiting} waiting${nextAttemptAt === null ? '' : ` until ${nextAttemptAt}`}`);
  if (!process.argv.includes('--resend')) continue;
  const { queued } = await ask(`/v0/webhooks/${webhookID}/resend`, {});
  console.log(`  ${queued} sent now`);
}
