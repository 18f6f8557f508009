import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.p2p.solanaj.core.Account;
import org.p2p.solanaj.core.PublicKey;
import org.p2p.solanaj.core.Transaction;
import org.p2p.solanaj.programs.SystemProgram;
import org.p2p.solanaj.rpc.RpcApi;
import org.p2p.solanaj.rpc.RpcClient;
import org.p2p.solanaj.rpc.types.config.Commitment;
import org.p2p.solanaj.rpc.types.config.RpcSendTransactionConfig;
import org.p2p.solanaj.ws.SubscriptionWebSocketClient;

/** Calls a daemon with solanaj: its methods, sending, and subscriptions with the one unsubscription that it knows. */
public class Flows {
  interface Step {
    void run() throws Exception;
  }

  static final RpcApi api = new RpcClient(System.getenv("PARHELION_URL")).getApi();
  static final Account payer = new Account();

  static boolean flow(String name, Step step) {
    try {
      step.run();
    } catch (Throwable reason) {
      String text = String.valueOf(reason).replaceAll("\\s+", " ");
      System.out.printf("not ok %s: %.400s%n", name, text);
      return false;
    }
    System.out.println("ok " + name);
    return true;
  }

  static void check(boolean condition, String text) {
    if (!condition) throw new IllegalStateException(text);
  }

  static Transaction payment(PublicKey target, long lamports) throws Exception {
    Transaction transaction = new Transaction();
    transaction.addInstruction(SystemProgram.transfer(payer.getPublicKey(), target, lamports));
    return transaction;
  }

  static String send(Transaction transaction) throws Exception {
    String blockhash = api.getLatestBlockhash(Commitment.CONFIRMED).getValue().getBlockhash();
    String signature = api.sendTransaction(transaction, List.of(payer), blockhash);
    confirm(signature);
    return signature;
  }

  static void confirm(String signature) throws Exception {
    for (int tries = 0; tries < 200; tries++) {
      var status = api.getSignatureStatuses(List.of(signature), false).getValue().get(0);
      if (status != null && !"processed".equals(status.getConfirmationStatus())) return;
      Thread.sleep(100);
    }
    throw new IllegalStateException(signature + " was not confirmed");
  }

  /** Not getLargestAccounts: the client takes only lamports with a fraction for a number there. */
  static void methods(String signature) throws Exception {
    PublicKey key = payer.getPublicKey();
    long slot = api.getSlot(Commitment.CONFIRMED);
    flow("solanaj getAccountInfo", () -> api.getAccountInfo(key));
    flow("solanaj getBalance", () -> check(api.getBalance(key, Commitment.CONFIRMED) > 0, "0"));
    flow("solanaj getBlock", () -> api.getBlock((int) slot, Map.of("commitment", Commitment.CONFIRMED, "maxSupportedTransactionVersion", 0)));
    flow("solanaj getBlockCommitment", () -> api.getBlockCommitment(slot));
    flow("solanaj getBlockHeight", () -> api.getBlockHeight(Commitment.CONFIRMED));
    flow("solanaj getBlockProduction", () -> api.getBlockProduction());
    flow("solanaj getBlockTime", () -> api.getBlockTime(slot));
    flow("solanaj getBlocks", () -> api.getBlocks(slot - 3, slot, Commitment.CONFIRMED));
    flow("solanaj getClusterNodes", () -> api.getClusterNodes());
    flow("solanaj getEpochInfo", () -> api.getEpochInfo());
    flow("solanaj getEpochSchedule", () -> api.getEpochSchedule());
    flow("solanaj getFirstAvailableBlock", () -> api.getFirstAvailableBlock());
    flow("solanaj getGenesisHash", () -> api.getGenesisHash());
    flow("solanaj getHealth", () -> check(api.getHealth(), "not healthy"));
    flow("solanaj getHighestSnapshotSlot", () -> api.getHighestSnapshotSlot());
    flow("solanaj getIdentity", () -> api.getIdentity());
    flow("solanaj getInflationGovernor", () -> api.getInflationGovernor());
    flow("solanaj getInflationRate", () -> api.getInflationRate());
    flow("solanaj getLeaderSchedule", () -> api.getLeaderSchedule());
    flow("solanaj getMaxRetransmitSlot", () -> api.getMaxRetransmitSlot());
    flow("solanaj getMaxShredInsertSlot", () -> api.getMaxShredInsertSlot());
    flow("solanaj getMultipleAccounts", () -> api.getMultipleAccounts(List.of(key, SystemProgram.PROGRAM_ID)));
    flow(
        "solanaj getMultipleAccounts base64+zstd",
        () -> api.getMultipleAccounts(List.of(key), Map.of("encoding", "base64+zstd")));
    flow("solanaj getRecentPerformanceSamples", () -> api.getRecentPerformanceSamples());
    flow("solanaj getRecentPrioritizationFees", () -> api.getRecentPrioritizationFees());
    flow("solanaj getSlotLeader", () -> api.getSlotLeader());
    flow("solanaj getSlotLeaders", () -> api.getSlotLeaders(slot, 2));
    flow("solanaj getStakeMinimumDelegation", () -> api.getStakeMinimumDelegation());
    flow("solanaj getSupply", () -> api.getSupply());
    flow("solanaj getTransaction", () -> check(api.getTransaction(signature) != null, "null"));
    flow("solanaj getTransactionCount", () -> api.getTransactionCount());
    flow("solanaj getVersion", () -> api.getVersion());
    flow("solanaj getVoteAccounts", () -> api.getVoteAccounts());
    flow("solanaj minimumLedgerSlot", () -> api.minimumLedgerSlot());
  }

  static SubscriptionWebSocketClient connected() throws Exception {
    var socket = SubscriptionWebSocketClient.getExactPathInstance(System.getenv("PARHELION_WS"));
    check(socket.waitForConnection(20, TimeUnit.SECONDS), "no connection");
    // It repeats, right after it has connected, what it has subscribed to by then.
    Thread.sleep(500);
    return socket;
  }

  /** What the client logs; it reports an error answer on a websocket in no other way. */
  static final BlockingQueue<String> log = new LinkedBlockingQueue<>();

  static void collectLog() {
    java.util.logging.LogManager.getLogManager().reset();
    java.util.logging.Logger.getLogger("").addHandler(new java.util.logging.Handler() {
      @Override
      public void publish(java.util.logging.LogRecord line) {
        log.add(line.getMessage());
      }

      @Override
      public void flush() {}

      @Override
      public void close() {}
    });
  }

  /** This client ends every subscription by accountUnsubscribe: the daemon has to take it for any kind. */
  static void unsubscribed() throws Exception {
    var socket = connected();
    BlockingQueue<Object> notifications = new LinkedBlockingQueue<>();
    long id = socket.programSubscribe(SystemProgram.PROGRAM_ID.toBase58(), notifications::add, Commitment.CONFIRMED, "base64").get(20, TimeUnit.SECONDS);
    send(payment(new Account().getPublicKey(), 1_600_000));
    check(notifications.poll(20, TimeUnit.SECONDS) != null, "no notification");
    log.clear();
    socket.unsubscribe(id);
    Thread.sleep(2_000);
    for (String line : log) check(!line.contains("RPC Error"), line);
    socket.close();
  }

  static void notified() throws Exception {
    var socket = connected();
    BlockingQueue<Object> notifications = new LinkedBlockingQueue<>();
    socket.accountSubscribe(payer.getPublicKeyBase58(), notifications::add, Commitment.CONFIRMED, "base64+zstd").get(20, TimeUnit.SECONDS);
    socket.logsSubscribe(payer.getPublicKeyBase58(), notifications::add).get(20, TimeUnit.SECONDS);
    send(payment(new Account().getPublicKey(), 1_800_000));
    check(notifications.poll(20, TimeUnit.SECONDS) != null, "no first notification");
    check(notifications.poll(20, TimeUnit.SECONDS) != null, "no second notification");
    socket.close();
  }

  public static void main(String[] arguments) throws Exception {
    collectLog();
    if (!flow("airdrop", () -> confirm(api.requestAirdrop(payer.getPublicKey(), 5_000_000_000L, Commitment.CONFIRMED)))) System.exit(1);
    String[] sent = new String[1];
    if (!flow("send and confirm", () -> sent[0] = send(payment(new Account().getPublicKey(), 2_000_000)))) System.exit(1);
    flow("send without preflight, twice", () -> {
      Transaction transaction = payment(new Account().getPublicKey(), 2_100_000);
      transaction.setRecentBlockHash(api.getLatestBlockhash(Commitment.CONFIRMED).getValue().getBlockhash());
      transaction.sign(payer);
      String wire = java.util.Base64.getEncoder().encodeToString(transaction.serialize());
      var config = new RpcSendTransactionConfig(RpcSendTransactionConfig.Encoding.base64, true, 0);
      String first = api.sendRawTransaction(wire, config);
      Thread.sleep(1_000);
      check(first.equals(api.sendRawTransaction(wire, config)), "another signature");
    });
    Thread.sleep(2_500);
    methods(sent[0]);
    flow("solanaj ws account and logs", Flows::notified);
    flow("solanaj ws accountUnsubscribe of a program", Flows::unsubscribed);
    System.exit(0);
  }
}
