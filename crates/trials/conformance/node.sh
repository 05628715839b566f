# program: Node.js
# packages: nodejs
exec node -e '
const t = () => performance.now(); let s = t();
setTimeout(() => { console.log(200, Math.floor(t() - s), "setTimeout");
  let d = Date.now(); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
  console.log(200, Date.now() - d, "Atomics.wait");
  let n = 0; s = t(); const i = setInterval(() => {
    if (++n == 10) { clearInterval(i); console.log(200, Math.floor(t() - s), "setInterval") } }, 20) }, 200)'
