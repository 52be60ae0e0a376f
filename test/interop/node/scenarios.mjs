// What is tried with each SDK; the same as in ../python/scenarios.py. A
// scenario gives facts; the Go tests judge them.

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Run code to its end, as a model does: what outlasts the answer is waited for. */
async function run(peer, code, more = {}) {
  let answer = await peer.call("python_run", { code, ...more });
  while (answer.result?.status === "running") {
    answer = await peer.call("python_wait", { run_id: answer.result.run_id });
  }
  return answer;
}

/** Run code as soon as the session is free. */
async function untilFree(peer, code, patience) {
  const end = performance.now() + patience;
  for (;;) {
    const answer = await run(peer, code);
    if (answer.result?.error?.kind !== "busy" || performance.now() > end) return answer;
    await sleep(100);
  }
}

/** List the tools, twice: the order must not vary. */
async function tools(peer) {
  return { protocol: peer.protocol(), first: await peer.tools(), second: await peer.tools() };
}

/** Keep a variable over 100 calls. */
async function state(peer) {
  const first = await run(peer, "kept = []");
  const begin = performance.now();
  for (let number = 0; number < 100; number++) await run(peer, `kept.append(${number})`);
  const seconds = (performance.now() - begin) / 1000;
  return { first, last: await run(peer, "(len(kept), sum(kept))"), seconds };
}

/** Cancel in the middle of a cell. */
async function cancel(peer) {
  await run(peer, "import time\nkept = 41");
  const giveUp = new AbortController();
  const call = peer.call("python_run", { code: "kept += 1\ntime.sleep(60)\nkept = 'ended'" }, { signal: giveUp.signal });
  setTimeout(() => giveUp.abort("the user changed their mind"), 1500);
  const ended = await call.then(
    () => true,
    () => false,
  );
  if (ended) throw new Error("the call ended before it was cancelled");
  const begin = performance.now();
  const after = await untilFree(peer, "kept", 20_000);
  return { after, seconds: (performance.now() - begin) / 1000 };
}

/** Watch a cell of 3 seconds, and a second afterwards. */
async function progress(peer) {
  await run(peer, "import time");
  const code = "for i in range(30):\n    print('step', i)\n    time.sleep(0.1)";
  const begin = performance.now();
  const answer = await peer.call("python_run", { code }, { progress: true });
  const end = performance.now();
  await sleep(1000);
  const times = peer.notices.map((notice) => notice.at);
  return {
    answer,
    during: times.filter((at) => begin <= at && at <= end).length,
    late: times.filter((at) => at > end + 100).length,
    values: peer.notices.map((notice) => notice.value),
  };
}

/** Print 5 MB, give a value of 5 MB, show an image of megabytes. */
async function large(peer) {
  const printed = await run(peer, "for i in range(100_000): print(f'{i:049d}')");
  const value = await run(peer, "'y' * 5_000_000");
  const noise =
    "import numpy as np\nfrom PIL import Image\n" +
    "Image.fromarray(np.random.default_rng(1).integers(0, 255, (1400, 1400, 3), dtype=np.uint8))";
  return { printed, value, image: await run(peer, noise), after: await run(peer, "1 + 1") };
}

/** Call eight times at once, and list files beside. */
async function parallel(peer) {
  await run(peer, "import time\nseen = []");
  const cells = [];
  const files = [];
  for (let number = 0; number < 8; number++) {
    cells.push(run(peer, `seen.append(${number})\ntime.sleep(0.2)\n${number}`));
    files.push(peer.call("file_list", {}));
  }
  const answers = await Promise.all(cells);
  const lists = await Promise.all(files);
  const after = await untilFree(peer, "sorted(seen)", 20_000);
  const ran = answers.filter((a) => a.result?.success).map((a) => Number(a.result.result));
  return { answers, lists, ran: ran.sort((a, b) => a - b), after };
}

/** Go away, come back, and go on in the same session by its handle. */
async function kept(peer, again) {
  await run(peer, "kept = 42");
  const session = peer.session;
  await peer.close();
  const next = await again();
  next.session = session;
  const after = await run(next, "kept");
  await next.close();
  return { after };
}

/** Play what every client does over every transport, in one session. */
async function every(peer) {
  const facts = {};
  for (const scenario of [tools, state, progress, cancel, large, parallel]) facts[scenario.name] = await scenario(peer);
  return facts;
}

export const SCENARIOS = { every, kept };
